"""What differences on the same samples say: means, bootstrap intervals, and tests for being below."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import stats

RESAMPLES = 9_999
SEED = 0
TIE = 0.01
"""Two answers whose log-probabilities differ by at most so many nats are a tie."""

Values = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Mean:
    """The mean of `count` values and its standard error, which takes two of them (else None)."""

    value: float
    error: float | None
    count: int

    @staticmethod
    def of(values: ArrayLike) -> "Mean":
        """Of at least one value; the error is s/√n, s with n − 1 in its denominator."""
        array = np.asarray(values, dtype=np.float64)
        error = float(stats.sem(array)) if array.size > 1 else None
        return Mean(float(array.mean()), error, int(array.size))


@dataclass(frozen=True, slots=True)
class Interval:
    """A mean of differences and its 95 % bootstrap interval, None where one value says nothing of spread."""

    mean: float
    low: float | None
    high: float | None

    @property
    def above(self) -> bool:
        """Whether the whole interval lies above 0."""
        return self.low is not None and self.low > 0

    @property
    def below(self) -> bool:
        """Whether the whole interval lies below 0."""
        return self.high is not None and self.high < 0

    @staticmethod
    def of(groups: Sequence[ArrayLike]) -> "Interval":
        """Of the mean over the groups' means, each group resampled within itself (BCa, fixed seed).

        Every group counts alike, however many values it has. One group is the plain case. Where a group
        has a single value there is no interval: it would be too narrow. BCa: Efron, Better Bootstrap
        Confidence Intervals, 1987.
        """
        samples = [np.asarray(group, dtype=np.float64) for group in groups]
        mean = float(np.mean([sample.mean() for sample in samples]))
        if any(sample.size < 2 for sample in samples):
            return Interval(mean, None, None)
        if all(np.ptp(sample) == 0 for sample in samples):
            return Interval(mean, mean, mean)  # BCa divides by the spread
        drawn = stats.bootstrap(
            samples,
            _mean_of_means,
            n_resamples=RESAMPLES,
            vectorized=True,
            method="BCa",
            rng=np.random.default_rng(SEED),
        )
        low, high = drawn.confidence_interval
        return Interval(mean, float(low), float(high))


def _mean_of_means(*samples: Values, axis: int = -1) -> Any:
    return sum(sample.mean(axis=axis) for sample in samples) / len(samples)


@dataclass(frozen=True, slots=True)
class Outcomes:
    """How many differences are above a tie, within it and below it."""

    wins: int
    ties: int
    losses: int

    @staticmethod
    def of(differences: ArrayLike, tie: float = TIE) -> "Outcomes":
        """A difference of exactly `tie` is one."""
        array = np.asarray(differences, dtype=np.float64)
        wins, losses = int((array > tie).sum()), int((array < -tie).sum())
        return Outcomes(wins, array.size - wins - losses, losses)


def below(differences: ArrayLike) -> float:
    """The p-value of a mean below 0, if each difference could as well have had the other sign.

    A one-sided sign-flip test: exact where there are at most `RESAMPLES` flips, else by so many random
    ones of a fixed seed. Without a difference, 1.
    """
    array = np.asarray(differences, dtype=np.float64)
    found = array[array != 0]  # a flipped 0 is the same 0, which only doubles the flips
    if found.size == 0:
        return 1.0
    if found.size == 1:  # scipy flips two or more
        return 0.5 if found[0] < 0 else 1.0
    tested = stats.permutation_test(
        (found,),
        np.mean,
        permutation_type="samples",
        vectorized=True,
        n_resamples=RESAMPLES,
        alternative="less",
        rng=np.random.default_rng(SEED),
    )
    return float(tested.pvalue)


def holm(p_values: Sequence[float]) -> list[float]:
    """Adjusted p-values, in the order given, that keep the chance of one false finding among all of them.

    The smallest is multiplied by their number, the next by one less, and so on; none falls below one
    before it, and none exceeds 1. Source: Holm, A Simple Sequentially Rejective Multiple Test Procedure,
    1979.
    """
    order = np.argsort(p_values, kind="stable")
    scaled = np.asarray(p_values)[order] * np.arange(len(p_values), 0, -1)
    adjusted = np.empty(len(p_values))
    adjusted[order] = np.minimum(np.maximum.accumulate(scaled), 1.0) if len(p_values) else scaled
    return [float(value) for value in adjusted]
