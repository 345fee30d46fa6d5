"""Measurements in pairs: two arms in turns, and what their pairs say of each promise."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field

from loadtests.ratios import AtMost, Pair, Ratio, Verdict, Within

Quantities = dict[str, float]
"""Seconds by the name of what took them."""

Arm = Callable[[int], Awaitable[Quantities]]

# A server that has just answered still spins on its cores for a moment, which the next one would pay for.
SETTLING_SECONDS = 1.5


@dataclass(frozen=True, slots=True)
class Line:
    """One promise: a quantity of `measured`, as a ratio to the same of `baseline`."""

    name: str
    quantity: str
    promise: Within | AtMost


@dataclass(slots=True)
class Measurement:
    """Two arms that are measured in turns, `count` times; each call of an arm is told the pair's number.

    `warms_up`: both arms run once for nothing before. `profiled`: prompt tokens of the measured arm's
    requests where it tells their stages (`loadtests.stages`), else None.
    """

    name: str
    baseline: Arm
    measured: Arm
    lines: Sequence[Line]
    count: int
    warms_up: bool = True
    profiled: int | None = None
    pairs: list[tuple[Quantities, Quantities]] = field(default_factory=list)

    @property
    def steps(self) -> int:
        """How often both arms will be run."""
        return self.count + self.warms_up

    async def warm_up(self, number: int) -> None:
        """Run both arms once, for nothing."""
        await self.baseline(number)
        await self.measured(number)

    async def add_pair(self, number: int) -> None:
        """Measure both arms; the order alternates from pair to pair."""
        if number % 2:
            measured = await _settled(self.measured, number)
            self.pairs.append((await _settled(self.baseline, number), measured))
        else:
            baseline = await _settled(self.baseline, number)
            self.pairs.append((baseline, await _settled(self.measured, number)))


async def measure(measured: Sequence[Measurement], first: int, step: Callable[[str], None]) -> None:
    """Warm up, then add pairs to all measurements in turns; a pair that is not finished leaves no trace.

    `first`: number of the first pair, so that no round repeats the texts of another. `step` is told what is
    going to run before each step.
    """
    most = max(measurement.count for measurement in measured)
    for measurement in measured:
        if measurement.warms_up:
            step(f"warming up: {measurement.name}")
            await measurement.warm_up(first + most)
    for number in range(most):
        for measurement in measured:
            if number < measurement.count:
                step(measurement.name)
                await measurement.add_pair(first + number)


async def _settled(arm: Arm, number: int) -> Quantities:
    await asyncio.sleep(SETTLING_SECONDS)
    return await arm(number)


@dataclass(frozen=True, slots=True)
class Result:
    """One line with its numbers; `rounds` holds the pairs of each round that has any, in seconds."""

    line: Line
    ratio: Ratio
    verdict: Verdict
    rounds: tuple[tuple[Pair, ...], ...]

    @staticmethod
    def of(line: Line, rounds: Sequence[Sequence[tuple[Quantities, Quantities]]]) -> "Result":
        """The line's ratio and verdict over all rounds; at least one pair."""
        values = tuple(
            tuple((a[line.quantity], b[line.quantity]) for a, b in pairs) for pairs in rounds if pairs
        )
        ratio = Ratio.of_rounds(values)
        return Result(line, ratio, line.promise.verdict(ratio), values)

    @property
    def pairs(self) -> tuple[Pair, ...]:
        """The pairs of all rounds."""
        return tuple(pair for pairs in self.rounds for pair in pairs)
