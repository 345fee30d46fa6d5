"""The table that people read, and the JSON that programs read."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from rich.console import Console
from rich.table import Table

from loadtests.pairs import Result
from loadtests.ratios import Verdict

SHADOW_LIMIT = 0.06


@dataclass(frozen=True, slots=True)
class Shadow:
    """Bytes of key shadow and of KV memory on one server."""

    shadow_bytes: int
    cache_bytes: int

    @property
    def share(self) -> float:
        """Key shadow over KV memory."""
        return self.shadow_bytes / self.cache_bytes

    @property
    def verdict(self) -> Verdict:
        """Whether the shadow stays within its share."""
        return "holds" if self.share <= SHADOW_LIMIT else "does not hold"


@dataclass(frozen=True, slots=True)
class Report:
    """Everything that one run found; `setting` says how it ran."""

    setting: Mapping[str, Any]
    results: Sequence[Result]
    shadow: Shadow
    hit_rate: float

    @property
    def holds(self) -> bool:
        """Whether every line holds."""
        verdicts = [self.shadow.verdict, *(result.verdict for result in self.results)]
        return all(verdict == "holds" for verdict in verdicts)

    def to_json(self) -> dict[str, Any]:
        """JSON types only; times in seconds."""
        lines = [
            {
                "name": result.line.name,
                **asdict(result.ratio),
                "promise": str(result.line.promise),
                "verdict": result.verdict,
                "pairs": [list(pair) for pair in result.pairs],
            }
            for result in self.results
        ]
        shadow = {**asdict(self.shadow), "share": self.shadow.share, "verdict": self.shadow.verdict}
        return {
            "setting": dict(self.setting),
            "lines": lines,
            "shadow": shadow,
            "prefix_hit_rate": self.hit_rate,
        }

    def print(self, console: Console) -> None:
        """The table, with what it was measured under."""
        for name, value in self.setting.items():
            console.print(f"{name}: {value}", highlight=False, soft_wrap=True)
        console.print(self._table())
        console.print("Ratios are of times, so throughput's is of the time that the same work takes.")
        console.print(f"Prompt tokens hit in the prefix cache: {self.hit_rate:.2%}", highlight=False)

    def _table(self) -> Table:
        table = Table(
            "measured / baseline", "baseline", "measured", "ratio", "95 %", "n", "promise", "verdict"
        )
        for result in self.results:
            ratio = result.ratio
            baseline, measured = np.median(np.array(result.pairs), axis=0)
            table.add_row(
                result.line.name,
                _seconds(baseline),
                _seconds(measured),
                f"{ratio.median:.3f}",
                f"{ratio.low:.3f} to {ratio.high:.3f}",
                str(ratio.count),
                str(result.line.promise),
                result.verdict,
            )
        shadow = self.shadow
        table.add_row(
            "key shadow / KV memory",
            _mebibytes(shadow.cache_bytes),
            _mebibytes(shadow.shadow_bytes),
            f"{shadow.share:.3f}",
            "",
            "",
            f"≤ {SHADOW_LIMIT}",
            shadow.verdict,
        )
        return table


def _seconds(value: float) -> str:
    return f"{value:.2f} s" if value >= 1 else f"{1000 * value:.1f} ms"


def _mebibytes(value: int) -> str:
    return f"{value / (1 << 20):.1f} MiB"
