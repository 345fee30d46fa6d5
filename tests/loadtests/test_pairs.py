from collections.abc import Awaitable, Callable

import pytest

from loadtests import pairs
from loadtests.pairs import Line, Measurement, Quantities, Result, measure
from loadtests.ratios import AtMost, Within


def _arm(name: str, seconds: float, calls: list[tuple[str, int]]) -> Callable[[int], Awaitable[Quantities]]:
    async def run(number: int) -> Quantities:
        calls.append((name, number))
        return {"seconds": seconds, "doubled": 2 * seconds}

    return run


def _say_nothing(_: str) -> None:
    pass


@pytest.fixture(autouse=True)
def _hasty(monkeypatch: pytest.MonkeyPatch) -> None:
    """There is nothing to settle here."""
    monkeypatch.setattr(pairs, "SETTLING_SECONDS", 0)


async def test_arms_are_warmed_up_and_then_measured_in_alternating_order() -> None:
    calls: list[tuple[str, int]] = []
    measurement = Measurement("m", _arm("a", 1.0, calls), _arm("b", 2.0, calls), [], 3)
    await measure([measurement], 0, _say_nothing)
    warm_up, measured = calls[:2], calls[2:]
    assert [name for name, _ in warm_up] == ["a", "b"]
    assert measured == [("a", 0), ("b", 0), ("b", 1), ("a", 1), ("a", 2), ("b", 2)]
    assert len(measurement.pairs) == 3


async def test_the_next_round_goes_on_with_numbers_and_order() -> None:
    calls: list[tuple[str, int]] = []
    for first in (0, 5):
        measurement = Measurement("m", _arm("a", 1.0, calls), _arm("b", 2.0, calls), [], 3)
        await measure([measurement], first, _say_nothing)
    assert calls[10:] == [("b", 5), ("a", 5), ("a", 6), ("b", 6), ("b", 7), ("a", 7)]
    assert len({number for _, number in calls}) == 8  # the warm-ups' included


async def test_what_takes_long_is_measured_less_often_and_need_not_warm_up() -> None:
    calls: list[tuple[str, int]] = []
    often = Measurement("x", _arm("x", 1.0, calls), _arm("x", 1.0, calls), [], 3)
    seldom = Measurement("y", _arm("y", 1.0, calls), _arm("y", 1.0, calls), [], 1, warms_up=False)
    steps: list[str] = []
    await measure([often, seldom], 0, steps.append)
    assert steps == ["warming up: x", "x", "y", "x", "x"]
    assert len(steps) == often.steps + seldom.steps
    assert (len(often.pairs), len(seldom.pairs)) == (3, 1)


async def test_a_pair_that_is_interrupted_is_none() -> None:
    async def fails(number: int) -> Quantities:
        if number == 1:
            raise KeyboardInterrupt
        return {"seconds": 1.0}

    measurement = Measurement("m", _arm("a", 1.0, []), fails, [], 3)
    with pytest.raises(KeyboardInterrupt):
        await measure([measurement], 0, _say_nothing)
    assert len(measurement.pairs) == 1


async def test_measurements_take_turns() -> None:
    calls: list[tuple[str, int]] = []
    both = [Measurement(n, _arm(n, 1.0, calls), _arm(n, 1.0, calls), [], 2) for n in ("x", "y")]
    await measure(both, 0, _say_nothing)
    assert [name for name, _ in calls[4:]] == ["x", "x", "y", "y"] * 2


async def test_each_line_compares_its_quantity_by_its_promise() -> None:
    lines = [Line("one", "seconds", Within()), Line("two", "doubled", AtMost(3.0))]
    measurement = Measurement("m", _arm("a", 1.0, []), _arm("b", 2.5, []), lines, 4)
    await measure([measurement], 0, _say_nothing)
    one, two = (Result.of(line, [measurement.pairs]) for line in lines)
    assert (one.ratio.median, one.verdict, one.pairs) == (2.5, "does not hold", ((1.0, 2.5),) * 4)
    assert (two.ratio.median, two.verdict, two.pairs) == (2.5, "holds", ((2.0, 5.0),) * 4)
