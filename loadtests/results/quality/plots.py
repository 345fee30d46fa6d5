"""Quality against the length of the context, one panel a task, after the QGPM paper's figures 2 and 3."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from loadtests.quality.cells import PLAIN, Cell, Cells, Comparison
from loadtests.quality.notation import signed
from loadtests.quality.statistics import Interval
from loadtests.results.drawing import INK, Plot, drawn, look, plot

# Figure 2 sets QGPM beside what changes positions, figure 3 beside what edits the prompt, and gold evidence.
POSITIONS = (PLAIN, "self_extend", "ms_poe", "string", "qgpm", "qgpm_guarded")
EDITS = (PLAIN, "top_k", "reorder", "qgpm", "qgpm_guarded", "gold")
PANEL = 3.3, 2.6
# Neighbouring methods stand a little apart, or their bars would hide each other.
APART = 1.03


@dataclass(frozen=True, slots=True)
class Point:
    """A value and its bar, in what the axis shows; the bar is None where there is no spread."""

    value: float
    low: float | None
    high: float | None


@dataclass(frozen=True, slots=True)
class Shown:
    """What is shown of a cell, the name of the axis, and a value of it in words."""

    label: str
    of: Callable[[Cell], Point | None]
    words: Callable[[float], str]


def _accuracy(cell: Cell) -> Point | None:
    """In %, the bar one standard error to each side."""
    value, error = 100 * cell.accuracy.value, cell.accuracy.error
    if error is None:
        return Point(value, None, None)
    return Point(value, max(value - 100 * error, 0.0), min(value + 100 * error, 100.0))


def _difference(cell: Cell) -> Point | None:
    """Of the log-probability to plain's, in nats, the bar its interval; None for plain itself."""
    return None if cell.beside_plain is None else _of(cell.beside_plain.logprob)


ACCURACY = Shown("accuracy (%)", _accuracy, lambda value: f"{value:.0f} %")
DIFFERENCE = Shown("log-probability less plain's (nats)", _difference, lambda value: f"{signed(value)} nats")


def by_length(cells: Cells, methods: Sequence[str], name: str, title: str, shown: Shown) -> Plot | None:
    """One panel a task, length across, one line a method; None where no method has a point."""
    found = {method: _points(cells, method, shown.of) for method in methods}
    found = {method: points for method, points in found.items() if points}
    tasks = [task for task in cells.tasks if any(task == t for points in found.values() for t, _ in points)]
    if not tasks:
        return None
    columns = min(3, len(tasks))
    rows = -(-len(tasks) // columns)
    with drawn(PANEL[0] * columns, PANEL[1] * rows + 0.5, rows, columns) as (figure, axes):
        for place, (axis, task) in enumerate(zip(axes, tasks, strict=False)):
            for number, (method, points) in enumerate(found.items()):
                apart = APART ** (number - (len(found) - 1) / 2)
                _line(axis, method, {n: point for (t, n), point in points.items() if t == task}, apart)
            _finish(axis, task, cells.lengths)
            axis.set_xlabel("tokens of the context")
            axis.set_ylabel(shown.label if place % columns == 0 else "")
        for axis in axes[len(tasks) :]:
            axis.axis("off")
        _legend(figure, axes[: len(tasks)])
        return plot(
            figure, name, title, f"{title}, one panel a task ({', '.join(tasks)}). {_summary(found, shown)}"
        )


def pooled(title: str, name: str, rows: Sequence[tuple[str, Comparison]]) -> Plot:
    """Differences in log-probability with their intervals, one row each (at least one), top to bottom."""
    with drawn(6.5, 0.36 * len(rows) + 1.1) as (figure, axes):
        axis = axes[0]
        axis.axvline(0, color=INK, linewidth=0.8)
        for place, (method, beside) in enumerate(rows):
            point, shown = _of(beside.logprob), look(method)
            if point.low is not None and point.high is not None:
                axis.plot([point.low, point.high], [place, place], color=shown.colour)
            axis.plot([point.value], [place], marker=shown.marker, color=shown.colour)
        axis.set_yticks(range(len(rows)), [look(method).label for method, _ in rows])
        axis.set_ylim(len(rows) - 0.5, -0.5)
        axis.set_xlabel(f"log-probability of the answer, difference to {look(rows[0][1].base).label} (nats)")
        worded = ", ".join(f"{look(method).label} {signed(beside.logprob.mean)}" for method, beside in rows)
        return plot(figure, name, title, f"{title}: {worded} nats.")


def _points(cells: Cells, method: str, of: Callable[[Cell], Point | None]) -> dict[tuple[str, int], Point]:
    found = {(cell.task, cell.length): of(cell) for cell in cells.of(method)}
    return {key: point for key, point in found.items() if point is not None}


def _of(interval: Interval) -> Point:
    return Point(interval.mean, interval.low, interval.high)


def _line(axis: Axes, method: str, points: dict[int, Point], apart: float) -> None:
    if not points:
        return
    shown = look(method)
    lengths = [length * apart for length in points]
    values = [point.value for point in points.values()]
    below = [point.value - (point.value if point.low is None else point.low) for point in points.values()]
    above = [(point.value if point.high is None else point.high) - point.value for point in points.values()]
    axis.errorbar(
        lengths,
        values,
        yerr=[below, above],
        label=shown.label,
        color=shown.colour,
        marker=shown.marker,
        linestyle=shown.line,
        elinewidth=0.8,
        capsize=2,
    )


def _finish(axis: Axes, task: str, lengths: Sequence[int]) -> None:
    axis.set_title(task)
    axis.set_xscale("log", base=2)
    axis.set_xticks(lengths, [f"{length:,}" for length in lengths])
    axis.minorticks_off()
    axis.margins(x=0.08)
    low, high = axis.get_ylim()
    if low < 0 < high:
        axis.axhline(0, color=INK, linewidth=0.8)


def _legend(figure: Figure, axes: Sequence[Axes]) -> None:
    entries = {
        name: handle for axis in axes for handle, name in zip(*axis.get_legend_handles_labels(), strict=True)
    }
    figure.legend(entries.values(), entries.keys(), loc="outside lower center", ncols=len(entries))


def _summary(found: dict[str, dict[tuple[str, int], Point]], shown: Shown) -> str:
    """In words: each method's mean over the tasks at the longest length where it has any."""
    said = []
    for method, points in found.items():
        longest = max(length for _, length in points)
        values = [point.value for (_, length), point in points.items() if length == longest]
        mean = shown.words(sum(values) / len(values))
        said.append(f"{look(method).label} {mean} at {longest:,} tokens")
    return f"Means over the tasks: {'; '.join(said)}."
