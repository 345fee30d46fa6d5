from collections.abc import Awaitable, Callable

from loadtests.bench import measure
from loadtests.pairs import Line, Measurement, Quantities
from loadtests.ratios import AtMost, Within


def _arm(name: str, seconds: float, calls: list[tuple[str, int]]) -> Callable[[int], Awaitable[Quantities]]:
    async def run(number: int) -> Quantities:
        calls.append((name, number))
        return {"seconds": seconds, "doubled": 2 * seconds}

    return run


async def test_arms_are_warmed_up_and_then_measured_in_alternating_order() -> None:
    calls: list[tuple[str, int]] = []
    measurement = Measurement("m", _arm("a", 1.0, calls), _arm("b", 2.0, calls), [])
    await measure([measurement], 3)
    warm_up, pairs = calls[:2], calls[2:]
    assert [name for name, _ in warm_up] == ["a", "b"]
    assert pairs == [("a", 0), ("b", 0), ("b", 1), ("a", 1), ("a", 2), ("b", 2)]
    assert len(measurement.pairs) == 3


async def test_measurements_take_turns() -> None:
    calls: list[tuple[str, int]] = []
    both = [Measurement(n, _arm(n, 1.0, calls), _arm(n, 1.0, calls), []) for n in ("x", "y")]
    await measure(both, 2)
    assert [name for name, _ in calls[4:]] == ["x", "x", "y", "y"] * 2


async def test_each_line_compares_its_quantity_by_its_promise() -> None:
    lines = [Line("one", "seconds", Within()), Line("two", "doubled", AtMost(3.0))]
    measurement = Measurement("m", _arm("a", 1.0, []), _arm("b", 2.5, []), lines)
    await measure([measurement], 4)
    one, two = measurement.results()
    assert (one.ratio.median, one.verdict, one.pairs) == (2.5, "does not hold", ((1.0, 2.5),) * 4)
    assert (two.ratio.median, two.verdict, two.pairs) == (2.5, "holds", ((2.0, 5.0),) * 4)
