"""The JSON that programs read, and the table that people read."""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from cache import whole_file

_WIDTH = 150
_FEW = 20
_MOST_PARTS = 3
_COLUMNS = (
    "scenario", "arrival", "n", "errors", "TTFT p50", "p99", "TPOT p50", "ITL p99", "e2e p50", "req/s",
    "tok/s", "goodput", "hits",
)  # fmt: skip


@dataclass(slots=True)
class Report:
    """What a run found so far; `setting` says how it ran, `skipped` why a scenario was not."""

    setting: Mapping[str, Any]
    scenarios: list[dict[str, Any]] = field(default_factory=list)
    skipped: dict[str, str] = field(default_factory=dict)
    interrupted: bool = False

    def to_json(self) -> dict[str, Any]:
        """JSON types only; times in seconds."""
        return {
            "setting": dict(self.setting),
            "interrupted": self.interrupted,
            "skipped": [{"name": name, "reason": reason} for name, reason in self.skipped.items()],
            "scenarios": self.scenarios,
        }

    def write(self, out: Path) -> None:
        """Write the JSON, whole or not at all. Raises OSError."""
        whole_file.write(out, json.dumps(self.to_json(), indent=2) + "\n")

    def print(self, console: Console) -> None:
        """The table, with what it was measured under and what was left out."""
        console.width = max(console.width, _WIDTH)
        for name, value in self.setting.items():
            console.print(f"{name}: {value}", highlight=False, markup=False)
        table = Table(*_COLUMNS)
        for line in self.scenarios:
            table.add_row(*_row(line))
            if 1 < len(line["parts"]) <= _MOST_PARTS:
                for name, part in line["parts"].items():
                    table.add_row(f"  {name}", "", str(part["requests"]), "", *_latencies(part))
        console.print(table)
        for line in self.scenarios:
            for kind, count in line["errors"].items():
                text = f"errors of {line['name']}, {line['arrival']['text']}: {count} of {kind}"
                console.print(text, highlight=False, markup=False)
        for name, reason in self.skipped.items():
            console.print(f"left out: {name}: {reason}", highlight=False, markup=False)
        if pools := next((line["cache_bytes"] for line in reversed(self.scenarios)), None):
            held = ", ".join(
                f"{name} {pool['held'] / 2**20:.1f} of {pool['total'] / 2**20:.1f} MiB"
                for name, pool in pools.items()
            )
            console.print(f"cache at the end: {held}", highlight=False)
        if few := sum(line["requests"] < _FEW for line in self.scenarios):
            console.print(
                f"{few} of the lines rest on fewer than {_FEW} requests: they say little. More --minutes do."
            )
        if self.interrupted:
            console.print("Interrupted: the last line holds what had ended, and the rest was not measured.")


def _row(line: Mapping[str, Any]) -> tuple[str, ...]:
    goodput, hits = line["goodput"], line["hit_rate"]
    return (
        line["name"],
        line["arrival"]["text"],
        str(line["requests"]),
        str(sum(line["errors"].values())),
        *_latencies(line),
        f"{line['requests_per_second']:.2f}",
        f"{line['output_tokens_per_second']:.1f}",
        f"{goodput['requests_per_second']:.2f}/s, {goodput['share']:.0%}",
        "-" if hits is None else f"{hits:.0%}",
    )


def _latencies(line: Mapping[str, Any]) -> tuple[str, ...]:
    shown = (("ttft", "p50"), ("ttft", "p99"), ("tpot", "p50"), ("itl", "p99"), ("e2e", "p50"))
    return tuple(_seconds(line[name], which) for name, which in shown)


def _seconds(spread: Mapping[str, float], which: str) -> str:
    if which not in spread:
        return "-"
    value = spread[which]
    return f"{value:.2f} s" if value >= 1 else f"{1000 * value:.0f} ms"
