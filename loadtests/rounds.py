"""A round: both servers started anew, and what was measured on them."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from loadtests.pairs import Measurement, Result
from loadtests.stages import Stage, profile

Side = Literal["stock", "ropeway"]


@dataclass(slots=True)
class Round:
    """One start of both servers, in `order`, filled while it goes on.

    `start_seconds`: from the call of a server's command until it is healthy. `resident_bytes`: memory that a
    server's processes held then, on the CPU's side.
    """

    order: tuple[Side, Side]
    start_seconds: dict[Side, float] = field(default_factory=dict)
    resident_bytes: dict[Side, int] = field(default_factory=dict)
    measurements: list[Measurement] = field(default_factory=list)

    @staticmethod
    def numbered(number: int) -> "Round":
        """The round of a number; which server is started first alternates."""
        return Round(("ropeway", "stock") if number % 2 else ("stock", "ropeway"))

    def describe(self) -> dict[str, Any]:
        """JSON, without the pairs."""
        return {
            "order": list(self.order),
            "start_seconds": dict(self.start_seconds),
            "resident_bytes": dict(self.resident_bytes),
        }


def pooled_results(rounds: Sequence[Round]) -> list[Result]:
    """Each line over the pairs of all rounds; lines without any are left out."""
    return [
        Result.of(line, [measurement.pairs for measurement in same])
        for same in _by_name(rounds)
        for line in same[0].lines
    ]


def pooled_stages(rounds: Sequence[Round]) -> list[Stage]:
    """The stages of each profiled measurement over the measured requests of all rounds."""
    return [
        stage
        for same in _by_name(rounds)
        if (tokens := same[0].profiled) is not None
        for stage in profile(tokens, [measured for one in same for _, measured in one.pairs])
    ]


def _by_name(rounds: Sequence[Round]) -> list[list[Measurement]]:
    """Measurements of one name in all rounds, in the order of the first round; only those that have pairs."""
    every = [measurement for one in rounds for measurement in one.measurements if measurement.pairs]
    names = dict.fromkeys(measurement.name for measurement in every)
    return [[measurement for measurement in every if measurement.name == name] for name in names]
