"""What a session found, for people and as JSON."""

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from loadtests.fuzz.comparison import Compared
from loadtests.fuzz.session import Session
from loadtests.machine import machine, versions

_SHOWN = 300


@dataclass(frozen=True, slots=True)
class Report:
    """`calm`: whether the server answers as before, with nothing running and no block in use."""

    session: Session
    compared: Sequence[Compared]
    calm: bool

    @property
    def good(self) -> bool:
        """Whether nothing is wrong that stock vLLM does not show for the same body."""
        return self.calm and not any(each.ours for each in self.compared)

    def print(self) -> None:
        """Tables of what was sent and of what was wrong."""
        console = Console()
        sent = Table("operation", "examples", "answers")
        for view, count in self.session.sent.items():
            sent.add_row(view, str(count), self.session.told(view))
        console.print(sent)
        wrong = Table("operation", "fault", "status", "where", "examples", "stock too")
        for each in sorted(self.compared, key=lambda one: (not one.ours, -one.examples)):
            found = each.violation
            counts = (str(found.status), found.detail, str(each.examples), str(each.stock))
            wrong.add_row(found.operation, found.kind, *counts)
        console.print(wrong)
        total, distinct = sum(self.session.sent.values()), len(self.session.distinct)
        console.print(f"{total} examples, {distinct} of them different; afterwards as before: {self.calm}")

    def write(self, path: Path) -> None:
        """The same as JSON, with the shortest body of every fault."""
        path.write_text(json.dumps(self._json(), indent=1, ensure_ascii=True) + "\n", encoding="utf-8")

    def _json(self) -> dict[str, Any]:
        session = self.session
        return {
            "setting": {"machine": machine(), "versions": versions(), "seed": session.seed},
            "examples": sum(session.sent.values()),
            "different": len(session.distinct),
            "calm": self.calm,
            "operations": [
                {
                    "operation": view,
                    "examples": count,
                    "answers": dict(sorted(session.statuses[view].items())),
                }
                for view, count in session.sent.items()
            ],
            "faults": [
                {
                    **asdict(each.violation),
                    "examples": each.examples,
                    "stock": each.stock,
                    "body": each.body[:_SHOWN],
                }
                for each in self.compared
            ],
        }
