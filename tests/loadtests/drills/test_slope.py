"""The slope of a series says how much it grows, and how sure that is."""

import numpy as np
import numpy.typing as npt
import pytest

from loadtests.drills.slope import Slope, TooFewError

MIB = 2.0**20
SECONDS = np.arange(240) * 5.0


def noise(generator: np.random.Generator, memory: float) -> npt.NDArray[np.float64]:
    """A series around 0 of which each sample is `memory` times the one before, and something new."""
    steps = generator.normal(size=len(SECONDS))
    found = np.zeros(len(SECONDS))
    for place in range(1, len(found)):
        found[place] = memory * found[place - 1] + steps[place]
    return found


def of(values: npt.NDArray[np.float64]) -> Slope:
    return Slope.of(list(SECONDS), list(values))


def test_a_straight_line_has_its_own_slope_for_sure() -> None:
    found = of(500 * MIB + 3 * MIB * SECONDS / 3600)
    assert found.per_hour == pytest.approx(3 * MIB)
    assert found.low == pytest.approx(3 * MIB, rel=1e-6)
    assert found.high == pytest.approx(3 * MIB, rel=1e-6)
    assert found.hours == pytest.approx(239 * 5 / 3600)
    assert found.samples == 240


def test_a_constant_has_no_slope() -> None:
    found = of(np.full(240, 500 * MIB))
    assert (found.per_hour, found.low, found.high) == (0, 0, 0)
    assert found.flat(0.0)


@pytest.mark.parametrize("memory", [0.0, 0.8])
def test_the_interval_holds_the_true_slope_about_as_often_as_it_says(memory: float) -> None:
    generator = np.random.default_rng(0)
    held = 0
    for _ in range(200):
        found = of(100 + 5 * SECONDS / 3600 + noise(generator, memory))
        held += found.low <= 5 <= found.high
    assert held >= 176  # 88 %; without regard to the series' memory it would be some 50 % at 0.8


def test_a_leak_is_not_flat_and_noise_around_a_level_is() -> None:
    generator = np.random.default_rng(1)
    level = 500 * MIB + 0.2 * MIB * noise(generator, 0.5)
    assert of(level).flat(0.05)
    assert not of(level + 60 * MIB * SECONDS / 3600).flat(0.05)


def test_what_shrinks_is_flat() -> None:
    assert of(500 * MIB - 100 * MIB * SECONDS / 3600).flat(0.05)


def test_few_samples_have_no_slope() -> None:
    with pytest.raises(TooFewError, match="19 samples"):
        Slope.of(range(19), range(19))
