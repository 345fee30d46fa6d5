"""How an encoding's score falls with the distance, of content that is the same everywhere."""

import math
from dataclasses import dataclass

import torch

from positional.encodings.registry import LENGTH, WIDTH, Entry

FAR, NEAR = LENGTH - 1, (LENGTH - 1) // 2
"""Where the two queries stand."""


@dataclass(frozen=True, slots=True)
class Curve:
    """One encoding's scores of a query and each key before it, nearest first, divided by √width.

    `far` of the query at `FAR`, `near` of the one at `NEAR`. Both, and all keys, hold ones.
    """

    entry: Entry
    far: tuple[float, ...]
    near: tuple[float, ...]

    @staticmethod
    def of(entry: Entry) -> "Curve":
        """By the encoding's own definition, in float64."""
        return Curve(entry, _scores(entry, FAR), _scores(entry, NEAR))

    @property
    def departure(self) -> float:
        """The most that the two queries differ by at one distance; 0 of what is exactly relative."""
        return max(abs(one - other) for one, other in zip(self.near, self.far, strict=False))


def _scores(entry: Entry, query: int) -> tuple[float, ...]:
    ones = torch.ones(WIDTH, dtype=torch.float64)
    keys = torch.arange(query, -1, -1)
    scores = entry.example.score(ones, ones, torch.full_like(keys, query), keys) / math.sqrt(WIDTH)
    # What is left of rounding says nothing, and differs between machines.
    return tuple(round(score, 6) for score in scores.tolist())
