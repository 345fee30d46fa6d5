"""What a drill found: what was asked to hold, and the figures beside it."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from loadtests.drills.subject import Subject

Say = Callable[[str], None]
"""Shows what a drill is doing."""


class NotRunError(RuntimeError):
    """A drill that this machine or model cannot do, and why."""


@dataclass(frozen=True, slots=True)
class Check:
    """Something that must hold, whether it did, and what was seen."""

    name: str
    held: bool
    seen: str

    def to_json(self) -> dict[str, Any]:
        """JSON types only."""
        return {"name": self.name, "held": self.held, "seen": self.seen}


@dataclass(slots=True)
class Findings:
    """Checks in their order, and figures by name; JSON types only in `figures`."""

    checks: list[Check] = field(default_factory=list)
    figures: dict[str, Any] = field(default_factory=dict)

    def check(self, name: str, held: bool, seen: object = "") -> None:
        """Note whether something held."""
        self.checks.append(Check(name, bool(held), str(seen)))

    @property
    def held(self) -> bool:
        """Whether everything held."""
        return all(check.held for check in self.checks)

    def to_json(self) -> dict[str, Any]:
        """JSON types only."""
        return {"checks": [check.to_json() for check in self.checks], "figures": self.figures}


@dataclass(frozen=True, slots=True)
class Drill:
    """Something done to a server; `run` raises NotRunError where it cannot be done here.

    `what` says in a sentence what is done. A drill that finds a fault says so in a check; it does not raise.
    """

    name: str
    what: str
    run: Callable[[Subject, Mapping[str, float], Say], Findings]
