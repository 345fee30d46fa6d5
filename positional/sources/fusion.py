"""Several sources' relevance made one."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import torch

from positional.relevance import mean_ranks, standardise
from positional.sources.contract import Reading, SourceName

Fusion = Literal["sum", "rank"]

HEAVIEST = 1e6
"""The largest weight; so that no sum overflows."""

_DAMPING = 60
"""How little the first ranks stand out, in the paper of reciprocal-rank fusion."""


@dataclass(frozen=True, slots=True)
class Choice:
    """The sources that a request asks, each with its weight, and how several are made one."""

    weights: tuple[tuple[SourceName, float], ...]
    fusion: Fusion = "sum"

    @property
    def sources(self) -> tuple[SourceName, ...]:
        """Their names, in order."""
        return tuple(name for name, _ in self.weights)

    @property
    def name(self) -> SourceName | Literal["fused"]:
        """The source's, or `fused` for several."""
        return self.sources[0] if len(self.weights) == 1 else "fused"


def equal(*sources: SourceName) -> Choice:
    """Some sources, each of which counts alike."""
    return Choice(tuple((source, 1.0) for source in sources))


def fuse(readings: Sequence[Reading], choice: Choice) -> torch.Tensor:
    """z float64 [sentences] of at least one reading, by the choice's weights.

    `sum`: of the weighted z; `rank`: of weight / (60 + rank), where equal sentences share their mean rank
    (Cormack, Clarke and Buettcher, 2009); both standardised again. One reading is handed on as it is.
    """
    if len(readings) == 1:
        return readings[0].z
    weights = dict(choice.weights)
    parts = [
        weights[reading.source]
        * (reading.z if choice.fusion == "sum" else 1 / (_DAMPING + mean_ranks(reading.z)))
        for reading in readings
    ]
    return standardise(torch.stack(parts).sum(dim=0)[:, None])
