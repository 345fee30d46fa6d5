"""How much each source counts in a fusion: as much as ranks the sentences that hold evidence best."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from statistics import fmean

import torch

from positional.relevance import rank
from positional.sources.contract import Reading, SourceName
from positional.sources.fusion import Choice, fuse

WEIGHTS = (1.0, 0.5, 2.0, 0.25, 4.0)
"""Of each source beside the first; of equally good ones the first is taken."""


@dataclass(frozen=True, slots=True)
class Told:
    """What each source says of a sample's sentences, z float64 [sentences], and which hold evidence."""

    z: Mapping[SourceName, torch.Tensor]
    evidence: frozenset[int]


def weighed(sources: Sequence[SourceName], samples: Sequence[Told]) -> Choice:
    """The sources with the weights under which the samples' mean average precision is highest."""
    choices = [
        Choice(tuple(zip(sources, (1.0, *weights), strict=True)))
        for weights in product(WEIGHTS, repeat=len(sources) - 1)
    ]
    return max(choices, key=lambda choice: fmean(_precision(choice, told) for told in samples))


def _precision(choice: Choice, told: Told) -> float:
    """Average precision: the mean, over the evidence, of its share among what ranks no lower."""
    fused = fuse([Reading(name, told.z[name], 0.0) for name in choice.sources], choice)
    places = sorted(int(place) for place in rank(fused)[list(told.evidence)])
    return fmean(found / (place + 1) for found, place in enumerate(places, 1))
