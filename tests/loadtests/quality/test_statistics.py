import numpy as np
import pytest
from scipy import stats

from loadtests.quality.statistics import RESAMPLES, Interval, Mean, Outcomes, below, holm


def test_a_mean_carries_its_standard_error_and_count() -> None:
    found = Mean.of([1.0, 2.0, 3.0, 4.0])
    assert (found.value, found.count) == (2.5, 4)
    assert found.error == pytest.approx(np.sqrt(5 / 3) / 2)


def test_one_value_has_no_standard_error() -> None:
    assert Mean.of([7.0]) == Mean(7.0, None, 1)


def test_an_interval_agrees_with_students_where_values_are_normal() -> None:
    values = np.random.default_rng(5).normal(1.0, 2.0, size=400)
    found = Interval.of([values])
    low, high = stats.t.interval(0.95, 399, loc=values.mean(), scale=stats.sem(values))
    assert found.mean == pytest.approx(values.mean())
    assert found.low == pytest.approx(low, abs=0.02)
    assert found.high == pytest.approx(high, abs=0.02)


def test_an_interval_holds_the_true_mean_about_as_often_as_it_says() -> None:
    generator = np.random.default_rng(11)
    held = 0
    for _ in range(100):
        found = Interval.of([generator.normal(size=30)])
        held += found.low is not None and found.high is not None and found.low <= 0 <= found.high
    assert held >= 88


def test_the_same_values_have_the_same_interval() -> None:
    values = [0.1, -0.4, 0.9, 0.3, 0.2]
    assert Interval.of([values]) == Interval.of([values])


def test_every_group_counts_alike_however_many_values_it_has() -> None:
    assert Interval.of([[1.0] * 90, [0.0, 0.0]]).mean == 0.5


def test_groups_are_resampled_within_themselves() -> None:
    """What lies between two groups is no spread: each is constant, so nothing is uncertain."""
    assert Interval.of([[1.0, 1.0], [5.0, 5.0]]) == Interval(3.0, 3.0, 3.0)


def test_a_group_of_one_value_leaves_no_interval() -> None:
    assert Interval.of([[1.0], [0.0, 2.0]]) == Interval(1.0, None, None)
    assert not Interval.of([[1.0]]).above
    assert not Interval.of([[-1.0]]).below


@pytest.mark.parametrize(
    ("interval", "above", "below"),
    [
        (Interval(1.0, 0.1, 2.0), True, False),
        (Interval(1.0, 0.0, 2.0), False, False),
        (Interval(-1.0, -2.0, 0.0), False, False),
        (Interval(-1.0, -2.0, -0.1), False, True),
    ],
)
def test_a_difference_counts_only_where_the_whole_interval_is_on_one_side(
    interval: Interval, above: bool, below: bool
) -> None:
    assert (interval.above, interval.below) == (above, below)


def test_differences_within_a_hundredth_of_a_nat_are_ties() -> None:
    assert Outcomes.of([0.5, 0.0101, 0.01, 0.0, -0.01, -0.0101]) == Outcomes(2, 3, 1)


def test_few_differences_are_tested_by_every_flip_of_their_signs() -> None:
    """Of the 8 flips of (1, 2, 3) one is as low as −6, and two are as low as −4: −1 −2 −3 and +1 −2 −3."""
    assert below([-1.0, -2.0, -3.0]) == 1 / 8
    assert below([1.0, -2.0, -3.0]) == 2 / 8
    assert below([1.0, 2.0, 3.0]) == 1.0


def test_one_difference_is_as_likely_above_as_below() -> None:
    assert (below([-3.0]), below([0.0, -3.0]), below([3.0])) == (0.5, 0.5, 1.0)


def test_differences_of_nothing_say_nothing() -> None:
    assert below([0.0, 0.0]) == 1.0
    assert below([0.0, -1.0, -2.0, -3.0]) == below([-1.0, -2.0, -3.0])


def test_many_differences_are_tested_by_random_flips_of_a_fixed_seed() -> None:
    values = np.random.default_rng(2).normal(-0.4, 1.0, size=40)
    assert below(values) == below(values)
    assert below(values) == pytest.approx(stats.ttest_1samp(values, 0, alternative="less").pvalue, abs=0.01)
    assert below(-np.abs(values)) == 1 / (RESAMPLES + 1)


def test_holms_steps_multiply_the_smallest_by_all_and_the_next_by_one_less() -> None:
    assert holm([0.01, 0.04, 0.03, 0.005]) == pytest.approx([0.03, 0.06, 0.06, 0.02])


def test_an_adjusted_p_value_never_exceeds_one_nor_changes_the_order() -> None:
    assert holm([0.9, 0.6]) == [1.0, 1.0]
    assert holm([0.02]) == [0.02]
    assert holm([]) == []
