"""The tables that people read, and the JSON that programs read."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, get_args

import numpy as np
from rich.console import Console
from rich.table import Table

from loadtests.memory import SHADOW_LIMIT, RequestCoordinates, Shadow
from loadtests.pairs import Result
from loadtests.rounds import Round, Side, pooled_results, pooled_stages
from loadtests.stages import STAGES, Stage


@dataclass(frozen=True, slots=True)
class Report:
    """Everything that one run found; `setting` says how it ran.

    An interrupted run lacks what it did not reach.
    """

    setting: Mapping[str, Any]
    rounds: Sequence[Round]
    shadow: Shadow | None
    coordinates: Sequence[RequestCoordinates]
    hit_rate: float

    @property
    def results(self) -> list[Result]:
        """Each line over all rounds."""
        return pooled_results(self.rounds)

    @property
    def holds(self) -> bool:
        """Whether every line holds."""
        verdicts = [result.verdict for result in self.results]
        if self.shadow is not None:
            verdicts.append(self.shadow.verdict)
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
        shadow = self.shadow
        return {
            "setting": dict(self.setting),
            "lines": lines,
            "shadow": None
            if shadow is None
            else {**asdict(shadow), "share": shadow.share, "verdict": shadow.verdict},
            "prefix_hit_rate": self.hit_rate,
            "rounds": [one.describe() for one in self.rounds],
            "stages": [asdict(stage) for stage in pooled_stages(self.rounds)],
            "memory": {
                "coordinates": [asdict(one) for one in self.coordinates],
                "resident_bytes": _by_side([one.resident_bytes for one in self.rounds]),
            },
            "start_seconds": _by_side([one.start_seconds for one in self.rounds]),
        }

    def print(self, console: Console) -> None:
        """The tables, with what they were measured under."""
        for name, value in self.setting.items():
            shown = ", ".join(f"{k} {v}" for k, v in value.items()) if isinstance(value, dict) else value
            console.print(f"{name}: {shown}", highlight=False, soft_wrap=True)
        console.print(self._ratios())
        console.print("Ratios are of times, so throughput's is of the time that the same work takes.")
        console.print(
            "Rounds: the least and the greatest of their own medians; each started both servers anew."
        )
        console.print(f"Prompt tokens hit in the prefix cache: {self.hit_rate:.2%}", highlight=False)
        console.print(self._servers())
        if stages := pooled_stages(self.rounds):
            console.print(_stage_table(stages))

    def _ratios(self) -> Table:
        table = Table()
        table.add_column("measured / baseline", min_width=24)
        for name in ("baseline", "measured", "ratio", "95 %", "rounds", "n", "promise", "verdict"):
            table.add_column(name)
        for result in self.results:
            ratio = result.ratio
            baseline, measured = np.median(np.array(result.pairs), axis=0)
            table.add_row(
                result.line.name,
                _seconds(baseline),
                _seconds(measured),
                f"{ratio.median:.3f}",
                _span(ratio.low, ratio.high),
                _span(min(ratio.rounds), max(ratio.rounds)),
                str(ratio.count),
                str(result.line.promise),
                result.verdict,
            )
        for shares in self._shares():
            table.add_row(*shares)
        return table

    def _shares(self) -> list[tuple[str, ...]]:
        """Memory of ours beside the KV cache that it goes with."""
        rows: list[tuple[str, ...]] = []
        if (shadow := self.shadow) is not None:
            sizes = (_size(shadow.cache_bytes), _size(shadow.shadow_bytes), f"{shadow.share:.4f}")
            promised = (f"≤ {SHADOW_LIMIT}", shadow.verdict)
            rows.append(("key shadow / KV memory", *sizes, "", "", "", *promised))
        for one in self.coordinates:
            held = one.held_bytes
            sizes = (_size(one.cache_bytes), _size(held), f"{held / one.cache_bytes:.4f}")
            rows.append((f"coordinates, {one.tokens:,} tokens / their KV cache", *sizes))
        return rows

    def _servers(self) -> Table:
        table = Table("server", "starts in (median)", "least to greatest", "n", "memory once it is ready")
        for side in get_args(Side):
            seconds = [one.start_seconds[side] for one in self.rounds if side in one.start_seconds]
            resident = [one.resident_bytes[side] for one in self.rounds if side in one.resident_bytes]
            if seconds:
                table.add_row(
                    side,
                    f"{np.median(seconds):.1f} s",
                    f"{min(seconds):.1f} to {max(seconds):.1f} s",
                    str(len(seconds)),
                    _size(float(np.median(resident))) if resident else "",
                )
        return table


def _by_side(rounds: Sequence[Mapping[Side, float]]) -> dict[str, list[float]]:
    return {side: [values[side] for values in rounds if side in values] for side in get_args(Side)}


def _stage_table(stages: Sequence[Stage]) -> Table:
    """One row a length: where the time to the first token of a QGPM request goes, on a cold cache."""
    table = Table("tokens", "n", *STAGES, title="QGPM's time to the first token by stage (mean)")
    for tokens in dict.fromkeys(stage.tokens for stage in stages):
        of_length = [stage for stage in stages if stage.tokens == tokens]
        cells = [f"{_seconds(stage.seconds)} ({stage.share:.1%})" for stage in of_length]
        table.add_row(f"{tokens:,}", str(of_length[0].count), *cells)
    return table


def _span(low: float, high: float) -> str:
    return f"{low:.3f} to {high:.3f}"


def _seconds(value: float) -> str:
    return f"{value:.2f} s" if value >= 1 else f"{1000 * value:.1f} ms"


def _size(value: float) -> str:
    return f"{value / (1 << 20):.1f} MiB" if value >= 1 << 20 else f"{value / (1 << 10):.1f} KiB"
