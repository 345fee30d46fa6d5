"""What the guard's dial is worth: the surer the relevance has to be, the fewer requests are modulated."""

from dataclasses import dataclass

from loadtests.quality import notation
from loadtests.quality.cells import PLAIN, Cells
from loadtests.quality.methods import CHANCE, GUARDED, RANKED
from loadtests.quality.statistics import Interval
from loadtests.results import markdown
from loadtests.results.drawing import INK, Plot, drawn, look, plot

SHARES = (0.1, 0.25, 0.5, 0.75, 1.0)
"""Of the samples, the surest first: what is modulated; the others are answered plainly."""


@dataclass(frozen=True, slots=True)
class Setting:
    """A dial under which `share` of a method's samples are modulated, by a confidence of at least `asked`.

    What all samples together gain on plain, those left plain counting 0: `logprob` in nats, `accuracy` in
    shares.
    """

    share: float
    asked: float
    logprob: Interval
    accuracy: Interval


def settings(cells: Cells, method: str) -> list[Setting]:
    """One for each of SHARES; none where no guard's confidence was observed beside plain.

    Where the guard had nothing to judge, the answer was the plain one: such a sample comes last.
    """
    gains = sorted(
        (
            (ours.confidence or 0.0, ours.logprob - theirs.logprob, ours.correct - theirs.correct)
            for cell in cells.of(method)
            for number, ours in cells.samples(cell.task, cell.length, method).items()
            if (theirs := cells.samples(cell.task, cell.length, PLAIN).get(number)) is not None
        ),
        key=lambda one: one[0],
        reverse=True,
    )
    if not any(confidence for confidence, _, _ in gains):
        return []
    found = []
    for share in SHARES:
        kept = round(share * len(gains))
        if kept == 0:
            continue
        logprobs = [gain if at < kept else 0.0 for at, (_, gain, _) in enumerate(gains)]
        accuracies = [gain if at < kept else 0.0 for at, (_, _, gain) in enumerate(gains)]
        asked = gains[kept - 1][0]
        found.append(Setting(share, asked, Interval.of([logprobs]), Interval.of([accuracies])))
    return found


def dialled(cells: Cells) -> dict[str, list[Setting]]:
    """The settings of every source of relevance that was asked without the guard, by method."""
    found = {method: settings(cells, method) for method in RANKED if method not in {*GUARDED, *CHANCE}}
    return {method: rows for method, rows in found.items() if rows}


def dial(cells: Cells) -> str:
    """A row for each source and share; nothing where no confidence was observed."""
    rows = [
        (
            look(method).label,
            f"{100 * setting.share:.0f} %",
            f"{setting.asked:.2f}",
            notation.interval(setting.logprob),
            f"{100 * setting.accuracy.mean:+.1f}",
        )
        for method, found in dialled(cells).items()
        for setting in found
    ]
    if not rows:
        return ""
    head = ("relevance", "modulated", "confidence", "all samples less plain, nats", "accuracy, points")
    return "\n\n".join(
        (
            "### The guard's dial",
            "Were only the surest of the samples modulated and the others answered plainly, over all cells. "
            "Nothing guards here, so K is as it is set (under the guard it grows, which four values need):",
            markdown.table(head, rows),
        )
    )


def dial_plot(cells: Cells) -> Plot | None:
    """Gain against the share that is modulated, one line a source; None where no confidence was observed."""
    found = dialled(cells)
    if not found:
        return None
    title = "The guard's dial"
    with drawn(6.0, 3.2) as (figure, axes):
        axis = axes[0]
        axis.axhline(0, color=INK, linewidth=0.8)
        for method, rows in found.items():
            shown = look(method)
            axis.plot(
                [100 * row.share for row in rows],
                [row.logprob.mean for row in rows],
                color=shown.colour,
                marker=shown.marker,
                linestyle=shown.line,
                label=shown.label,
            )
        axis.set_xlabel("modulated requests, the surest first (%)")
        axis.set_ylabel("log-probability less plain's (nats)")
        axis.legend()
        worded = "; ".join(
            f"{look(method).label} {notation.signed(rows[-1].logprob.mean)} where all are modulated"
            for method, rows in found.items()
        )
        return plot(figure, "dial", title, f"{title}: {worded}.")
