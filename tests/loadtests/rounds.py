"""Rounds that were never run, for what reads them."""

from collections.abc import Sequence

from loadtests.pairs import Line, Measurement, Quantities
from loadtests.rounds import Round


async def _never(number: int) -> Quantities:
    raise AssertionError(number)


def measurement(name: str, line: Line, measured: Sequence[float]) -> Measurement:
    """One whose baseline took a second each time."""
    pairs: list[tuple[Quantities, Quantities]] = [
        ({line.quantity: 1.0}, {line.quantity: seconds}) for seconds in measured
    ]
    return Measurement(name, _never, _never, [line], len(pairs), pairs=pairs)


def round_of(*measurements: Measurement) -> Round:
    """A round of servers that started in 10 and 12 seconds."""
    return Round(
        ("stock", "ropeway"),
        {"stock": 10.0, "ropeway": 12.0},
        {"stock": 1 << 30, "ropeway": 2 << 30},
        list(measurements),
    )
