"""Coordinates: the position of every token on every plane in every map, as segments."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import torch

from positional.modulation import Modulation
from positional.planes import gate
from positional.profile import Profile

MapName = Literal["standard", "broad", "sharp"]
_ROW: dict[MapName, int] = {"broad": 0, "sharp": 1}


@dataclass(frozen=True, slots=True, eq=False)
class SentenceScores:
    """Per map (broad, sharp): each sentence's score of eq. 6, and where its protected prefix ends."""

    scores: tuple[torch.Tensor, torch.Tensor]
    protected_until: tuple[int, int]


@dataclass(frozen=True, slots=True, eq=False)
class Coordinates:
    """Position of token j = origin + stride × (j − start) of its segment (QGPM paper, eq. 7 and 8).

    `starts` int64 [segments]; `origin`, `stride` float64 [2 maps, segments, planes]. The first token is at
    0. The last segment has stride 1 and no end: that is unit-step decoding. `sentences` is what they were
    built from, where they were built from sentences.
    """

    starts: torch.Tensor
    origin: torch.Tensor
    stride: torch.Tensor
    standard_until: int
    sentences: SentenceScores | None = None

    @staticmethod
    def from_modulation(
        modulation: Modulation, profile: Profile, sentences: SentenceScores | None = None
    ) -> "Coordinates":
        """Strides by eq. 7, δ_m = max(s + (1 − s) g_m, ε), accumulated by eq. 8."""
        gates = gate(profile, modulation.anchor_length, modulation.gate_width)
        scores = torch.tensor((modulation.broad, modulation.sharp), dtype=torch.float64)[..., None]
        stride = torch.clamp(scores + (1 - scores) * gates, min=modulation.stride_floor)
        starts = torch.tensor(modulation.starts)
        inner_steps = (starts.diff() - 1)[:, None]
        steps = stride[:, :-1] * inner_steps + stride[:, 1:]
        origin = torch.zeros_like(stride)
        origin[:, 1:] = steps.cumsum(dim=1)
        return Coordinates(starts, origin, stride, modulation.standard_until, sentences)

    def positions(self, map: MapName, tokens: Sequence[int] | torch.Tensor) -> torch.Tensor:
        """Positions float64 [tokens, planes] of absolute token indices, in any order, in one map."""
        index = torch.as_tensor(tokens, dtype=torch.int64)
        if map == "standard":
            return index.double()[:, None].expand(-1, self.origin.shape[-1])
        segment = torch.searchsorted(self.starts, index, right=True) - 1
        row = _ROW[map]
        steps = (index - self.starts[segment]).double()[:, None]
        return self.origin[row, segment] + self.stride[row, segment] * steps

    def scores(self, map: MapName) -> torch.Tensor:
        """Each sentence's score in one map, float64 [sentences], before protection (eq. 6)."""
        return self._built_from().scores[_ROW[map]]

    def protected_until(self, map: MapName) -> int:
        """The first token of the first relevant sentence of one map (QGPM paper, section 4.2)."""
        return self._built_from().protected_until[_ROW[map]]

    @property
    def protected_prefix(self) -> int:
        """Tokens that stand at their standard places in both maps, as the paper protects them."""
        return min(self._built_from().protected_until)

    def _built_from(self) -> SentenceScores:
        if self.sentences is None:
            raise ValueError("these coordinates were not built from sentences")
        return self.sentences
