"""Ratios of paired measurements: median, bootstrap interval, and whether a promise holds."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

RESAMPLES = 10_000
SEED = 0

Verdict = Literal["holds", "does not hold"]


@dataclass(frozen=True, slots=True)
class Ratio:
    """Of `count` pairs: the median of their ratios and its 95 % bootstrap interval."""

    median: float
    low: float
    high: float
    count: int

    @staticmethod
    def of_pairs(pairs: Sequence[tuple[float, float]]) -> "Ratio":
        """Each pair is (baseline, measured) of one quantity where less is better; at least one pair.

        The interval holds the middle 95 % of the medians of resampled ratios (percentile bootstrap).
        """
        ratios = np.array([measured / baseline for baseline, measured in pairs])
        drawn = np.random.default_rng(SEED).choice(ratios, size=(RESAMPLES, len(ratios)))
        low, high = np.percentile(np.median(drawn, axis=1), (2.5, 97.5))
        return Ratio(float(np.median(ratios)), float(low), float(high), len(ratios))


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
