"""How requests arrive: so many at a time, or at a rate, evenly or by chance."""

from dataclasses import dataclass, replace
from typing import Literal

Kind = Literal["concurrency", "constant", "poisson"]

# Of the rate that a server reached with a constant number at a time.
AUTO_SHARE = 0.7
# Where requests come whether or not others have ended, so many may be in flight.
MOST_IN_FLIGHT = 512


class ArrivalError(ValueError):
    """A text that names no arrival."""


@dataclass(frozen=True, slots=True)
class Arrival:
    """`value`: requests at a time, or requests a second; None: a share of what `concurrency` reached."""

    kind: Kind
    value: float | None

    @staticmethod
    def parse(text: str) -> "Arrival":
        """Read `concurrency=4`, `constant=0.5`, `poisson=2` or `poisson=auto`. Raises ArrivalError."""
        kind, _, value = text.partition("=")
        match kind:
            case "concurrency":
                return Arrival("concurrency", _count(text, value))
            case "constant" | "poisson":
                return Arrival(kind, None if value == "auto" else _rate(text, value))
        raise ArrivalError(f"{text} is neither concurrency=…, constant=… nor poisson=…")

    @property
    def open(self) -> bool:
        """Whether requests come whatever became of those before them."""
        return self.kind != "concurrency"

    @property
    def at_once(self) -> int:
        """How many requests keep a server busy from the start on."""
        return 1 if self.open or self.value is None else int(self.value)

    def settled(self, reached: float | None) -> "Arrival | None":
        """The arrival with its rate, once the requests a second that a server reached are known."""
        if self.value is not None:
            return self
        return replace(self, value=AUTO_SHARE * reached) if reached else None

    def to_json(self) -> dict[str, object]:
        """JSON: the kind, and `rate` or `concurrency`."""
        if self.open:
            return {"kind": self.kind, "rate": self.value}
        return {"kind": self.kind, "concurrency": self.at_once}

    def __str__(self) -> str:
        """As people read it."""
        if self.value is None:
            return f"{self.kind}, {AUTO_SHARE:.0%}"
        return f"{self.kind}, {self.value:.3g}/s" if self.open else f"{self.value:.0f} at a time"


def _count(text: str, value: str) -> float:
    if not value.isdecimal() or int(value) < 1:
        raise ArrivalError(f"{text} holds no whole number above 0")
    return float(value)


def _rate(text: str, value: str) -> float:
    try:
        rate = float(value)
    except ValueError:
        rate = 0.0
    if not 0 < rate < float("inf"):
        raise ArrivalError(f"{text} holds neither a rate above 0 nor auto")
    return rate
