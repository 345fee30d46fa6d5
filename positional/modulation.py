"""What a request carries of its coordinates: segments, scores, gate and floor, as bytes."""

import math
import struct
from collections.abc import Iterable
from dataclasses import dataclass
from itertools import pairwise

# The start of nothing: where no token ever stands.
ENDLESS = 2**62
_MAGIC = b"RWM1"
_HEAD = struct.Struct("<4sQ3d")


class ModulationError(ValueError):
    """Bytes or numbers that do not describe a modulation."""


@dataclass(frozen=True, slots=True)
class Modulation:
    """Segments of constant score per map, and the numbers that turn scores into strides.

    `starts`: first token of each segment, ascending from 0; the last segment has no end and scores of 1.
    `broad` and `sharp`: each segment's score s in the two maps (QGPM paper, section 4.2). Neighbours differ.
    `anchor_length` L_a in tokens, `gate_width` τ_m in planes, `stride_floor` ε (eq. 3 and 7).
    """

    starts: tuple[int, ...]
    broad: tuple[float, ...]
    sharp: tuple[float, ...]
    anchor_length: float
    gate_width: float
    stride_floor: float

    def __post_init__(self) -> None:
        if not (len(self.starts) == len(self.broad) == len(self.sharp) > 0):
            raise ModulationError("starts and scores must be equally many, and at least one")
        if self.starts[0] != 0 or any(a >= b for a, b in pairwise(self.starts)):
            raise ModulationError("segments must start at 0 and ascend")
        if self.starts[-1] >= ENDLESS:
            raise ModulationError("a segment starts where no token stands")
        scores = list(zip(self.broad, self.sharp, strict=True))
        if any(a == b for a, b in pairwise(scores)):
            raise ModulationError("neighbouring segments must differ in a score")
        if not all(0 <= score <= 1 for score in (*self.broad, *self.sharp)):
            raise ModulationError("scores must lie between 0 and 1")
        if (self.broad[-1], self.sharp[-1]) != (1.0, 1.0):
            raise ModulationError("the last segment must have scores of 1")
        if not all(math.isfinite(v) and v > 0 for v in (self.anchor_length, self.gate_width)):
            raise ModulationError("anchor length and gate width must be finite and positive")
        if not 0 < self.stride_floor <= 1:
            raise ModulationError("the stride floor must lie in (0, 1]")

    @staticmethod
    def of_segments(
        segments: Iterable[tuple[int, float, float]],
        anchor_length: float,
        gate_width: float,
        stride_floor: float,
    ) -> "Modulation":
        """From (start, broad score, sharp score), merging neighbours of equal scores.

        Token 0 stands at 0 whatever its score is, so a segment of it alone joins the next.
        """
        merged: list[tuple[int, float, float]] = []
        for segment in segments:
            if not merged or merged[-1][1:] != segment[1:]:
                merged.append(segment)
        if len(merged) > 1 and merged[1][0] == 1:
            merged[:2] = [(0, *merged[1][1:])]
        starts, broad, sharp = zip(*merged, strict=True)
        return Modulation(starts, broad, sharp, anchor_length, gate_width, stride_floor)

    @property
    def standard_until(self) -> int:
        """The first token that does not stand at its standard place on every plane of both maps."""
        if self.stride_floor == 1:
            return ENDLESS
        if (self.broad[0], self.sharp[0]) != (1.0, 1.0):
            return 1
        return self.starts[1] if len(self.starts) > 1 else ENDLESS

    def to_bytes(self) -> bytes:
        """Magic, number of segments and the three numbers, then starts (int64) and scores (float64)."""
        count = len(self.starts)
        head = _HEAD.pack(_MAGIC, count, self.anchor_length, self.gate_width, self.stride_floor)
        return head + struct.pack(f"<{count}q{2 * count}d", *self.starts, *self.broad, *self.sharp)

    @staticmethod
    def from_bytes(data: bytes) -> "Modulation":
        """Inverse of `to_bytes`; raises ModulationError on anything malformed."""
        if len(data) < _HEAD.size:
            raise ModulationError("modulation: too short")
        magic, count, anchor_length, gate_width, stride_floor = _HEAD.unpack_from(data)
        if magic != _MAGIC:
            raise ModulationError("modulation: unknown format")
        if len(data) != _HEAD.size + 24 * count:
            raise ModulationError("modulation: its length and its size disagree")
        values = struct.unpack_from(f"<{count}q{2 * count}d", data, _HEAD.size)
        starts, broad, sharp = values[:count], values[count : 2 * count], values[2 * count :]
        return Modulation(starts, broad, sharp, anchor_length, gate_width, stride_floor)
