"""Ratios of paired measurements: median, bootstrap interval, and whether a promise holds."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
import numpy.typing as npt

RESAMPLES = 10_000
SEED = 0

Verdict = Literal["holds", "does not hold"]

Pair = tuple[float, float]
"""(baseline, measured) of one quantity where less is better."""


@dataclass(frozen=True, slots=True)
class Ratio:
    """Of `count` pairs: the median of their ratios, its 95 % bootstrap interval, and each round's median."""

    median: float
    low: float
    high: float
    count: int
    rounds: tuple[float, ...]

    @staticmethod
    def of_rounds(rounds: Sequence[Sequence[Pair]]) -> "Ratio":
        """The pairs of all rounds that have any, pooled; at least one pair.

        Two processes of the same code differ for as long as they run, so the pairs of one round are alike.
        The interval holds the middle 95 % of the medians where rounds are drawn, then pairs of each round
        drawn (two-stage percentile bootstrap); of few rounds it is narrower than it should be.
        """
        ratios = [
            np.array([measured / baseline for baseline, measured in pairs]) for pairs in rounds if pairs
        ]
        low, high = np.percentile(_resampled_medians(ratios), (2.5, 97.5))
        pooled = np.concatenate(ratios)
        return Ratio(
            float(np.median(pooled)),
            float(low),
            float(high),
            len(pooled),
            tuple(float(np.median(values)) for values in ratios),
        )


def _resampled_medians(ratios: Sequence[npt.NDArray[np.float64]]) -> npt.NDArray[np.float64]:
    """Medians [RESAMPLES] of as many rounds as there are, each with as many pairs as it has."""
    generator = np.random.default_rng(SEED)
    counts = np.array([len(values) for values in ratios])
    table = np.full((len(ratios), counts.max()), np.nan)
    for row, values in zip(table, ratios, strict=True):
        row[: len(values)] = values
    rounds = generator.integers(len(ratios), size=(RESAMPLES, len(ratios)))[..., None]
    places = generator.random((RESAMPLES, len(ratios), counts.max()))
    drawn = table[rounds, (places * counts[rounds]).astype(int)]
    drawn[np.arange(counts.max()) >= counts[rounds]] = np.nan
    medians: npt.NDArray[np.float64] = np.nanmedian(drawn.reshape(RESAMPLES, -1), axis=1)
    return medians


@dataclass(frozen=True, slots=True)
class Within:
    """A promise that two quantities are equal up to noise.

    It holds if the median is at most `median`, or the interval contains 1 and ends below `high`.
    """

    median: float = 1.02
    high: float = 1.05

    def verdict(self, ratio: Ratio) -> Verdict:
        """Whether the promise holds for what was measured."""
        noise = ratio.low <= 1 <= ratio.high < self.high
        return "holds" if ratio.median <= self.median or noise else "does not hold"

    def __str__(self) -> str:
        return f"within {self.median - 1:.0%}"


@dataclass(frozen=True, slots=True)
class AtMost:
    """A promise that the median does not exceed a limit."""

    limit: float

    def verdict(self, ratio: Ratio) -> Verdict:
        """Whether the promise holds for what was measured."""
        return "holds" if ratio.median <= self.limit else "does not hold"

    def __str__(self) -> str:
        return f"≤ {self.limit}"
