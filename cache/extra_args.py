"""What a request carries to engine core and workers, and who may put it there.

The entries ride in vLLM's `SamplingParams.extra_args`, which survive preemption. Their names are
reserved: only the engine client may set them, after it refused a client's own (`reserved_names`).
"""

import struct
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
import numpy.typing as npt

from positional.modulation import Modulation
from positional.profile import Profile

PREFIX = "ropeway_"
MODULATION = "ropeway_modulation"
PROFILE = "ropeway_profile"
SCORE_TASK = "ropeway_score_task"
ARRIVAL = "ropeway_arrival"
FIRST = "ropeway_first"
FORCE_TOKENS = "force_tokens"
"""What `cache.forced_tokens` reads: a list of token ids, or one joined by commas; set by clients."""

_HEADER = struct.Struct("<3q")
_INDEX = np.dtype("<i4")

Indices = npt.NDArray[np.int32]


class ScoreTaskError(ValueError):
    """A score task that cannot be read, or whose tokens contradict each other."""


def reserved_names(extra_args: Mapping[str, Any] | None) -> list[str]:
    """Names in a client's extra arguments that only Ropeway may set."""
    return [name for name in extra_args or () if str(name).startswith(PREFIX)]


@dataclass(frozen=True, slots=True, eq=False)
class ScoreTask:
    """What the score pass of one prompt reads.

    `query_rows` int32 [rows], ascending token indices; `spans` int32 [sentences, 2], each sentence's
    first and past-the-end token, ascending; `silent` int32 [tokens], tokens that give no signal.
    """

    query_rows: Indices
    spans: Indices
    silent: Indices

    @staticmethod
    def of(query_rows: Iterable[int], spans: Iterable[tuple[int, int]], silent: Iterable[int]) -> "ScoreTask":
        """Build and check a task from Python numbers; raises ScoreTaskError."""
        task = ScoreTask(
            np.fromiter(query_rows, _INDEX),
            np.array(list(spans), _INDEX).reshape(-1, 2),
            np.fromiter(silent, _INDEX),
        )
        task._check()
        return task

    def _check(self) -> None:
        if not len(self.query_rows) or not len(self.spans):
            raise ScoreTaskError("a score task needs query rows and sentences")
        rows, edges = self.query_rows, self.spans.ravel()
        # Compared, not subtracted: a difference may not fit its type.
        if rows[0] < 0 or np.any(rows[1:] <= rows[:-1]):
            raise ScoreTaskError("query rows must be ascending token indices")
        if edges[0] < 0 or np.any(self.spans[:, 0] >= self.spans[:, 1]) or np.any(edges[1:] < edges[:-1]):
            raise ScoreTaskError("sentence spans must be non-empty, ascending and disjoint")
        if np.any((self.silent < edges[0]) | (self.silent >= edges[-1])):
            raise ScoreTaskError("silent tokens must lie among the sentences")

    def to_bytes(self) -> bytes:
        """Three lengths (int64), then the three arrays (int32), little-endian."""
        parts = (self.query_rows, self.spans.ravel(), self.silent)
        header = _HEADER.pack(*map(len, parts))
        return header + b"".join(part.astype(_INDEX).tobytes() for part in parts)

    @staticmethod
    def from_bytes(data: bytes) -> "ScoreTask":
        """Inverse of `to_bytes`; raises ScoreTaskError on anything malformed."""
        if len(data) < _HEADER.size:
            raise ScoreTaskError("score task: too short")
        lengths = _HEADER.unpack_from(data)
        if min(lengths) < 0 or lengths[1] % 2:
            raise ScoreTaskError("score task: bad header")
        values = data[_HEADER.size :]
        if len(values) != sum(lengths) * _INDEX.itemsize:
            raise ScoreTaskError("score task: its lengths and its size disagree")
        rows, spans, silent = np.split(np.frombuffer(values, _INDEX), np.cumsum(lengths[:2]))
        task = ScoreTask(rows, spans.reshape(-1, 2), silent)
        task._check()
        return task


def modulation_of(extra_args: Mapping[str, Any] | None) -> Modulation | None:
    """The modulation of a request, None when all its coordinates are the standard ones."""
    data = (extra_args or {}).get(MODULATION)
    return None if data is None else Modulation.from_bytes(data)


# Requests share few rules, and one object each lets a step compute the rows of a rule together.
_read_profile = lru_cache(maxsize=256)(Profile.from_bytes)


def profile_of(extra_args: Mapping[str, Any] | None) -> Profile | None:
    """The profile that a request rotates by, None where it is the model's own."""
    data = (extra_args or {}).get(PROFILE)
    return None if data is None else _read_profile(data)


def score_task_of(extra_args: Mapping[str, Any] | None) -> ScoreTask | None:
    """The score task of a score pass's request, None for every other request."""
    data = (extra_args or {}).get(SCORE_TASK)
    return None if data is None else ScoreTask.from_bytes(data)
