"""Whether a quantity grows: the slope of a series, with an interval that its own memory does not fool."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy import stats

PARTS = 10
_LEAST = 2 * PARTS
_CONFIDENCE = 0.95


class TooFewError(ValueError):
    """So few samples have no slope worth telling."""


@dataclass(frozen=True, slots=True)
class Slope:
    """Per hour, with its 95 % interval; `mean` of the series, `hours` that it covers, `samples` in it."""

    per_hour: float
    low: float
    high: float
    mean: float
    hours: float
    samples: int

    @staticmethod
    def of(seconds: Sequence[float], values: Sequence[float]) -> "Slope":
        """The line through the means of ten equal parts of the series, by least squares.

        Neighbouring samples are alike, so that each counts for less than one: the interval (Student's t,
        eight degrees of freedom) comes from the means of parts, which hardly know of each other. Raises
        TooFewError.
        """
        if len(seconds) < _LEAST:
            raise TooFewError(f"{len(seconds)} samples, but a slope needs {_LEAST}")
        parts = np.array_split(np.column_stack((seconds, values)).astype(np.float64), PARTS)
        means = np.array([part.mean(axis=0) for part in parts])
        hours, levels = means[:, 0] / 3600 - np.mean(means[:, 0] / 3600), means[:, 1] - np.mean(means[:, 1])
        slope = float(hours @ levels / (hours @ hours))
        scatter = float(np.sum((levels - slope * hours) ** 2)) / (PARTS - 2)
        quantile = float(stats.t.ppf((1 + _CONFIDENCE) / 2, PARTS - 2))
        reach = quantile * math.sqrt(scatter / float(hours @ hours))
        return Slope(
            slope,
            slope - reach,
            slope + reach,
            float(np.mean(values)),
            (seconds[-1] - seconds[0]) / 3600,
            len(seconds),
        )

    def flat(self, share: float) -> bool:
        """Whether even the upper end of the interval is no growth by `share` of the mean in an hour."""
        return self.high <= share * self.mean
