"""What was run and what was not: the grid's empty cells, and every cell that is not empty."""

from loadtests.quality import notation
from loadtests.quality.cells import Cell, Cells
from loadtests.results import markdown
from loadtests.results.drawing import look
from loadtests.results.quality.numbers import COLUMNS, numbers


def not_run(cells: Cells) -> str:
    """The cells of the declared grid without observations, by method."""
    absent: dict[str, list[str]] = {}
    for task, length, method in cells.missing():
        absent.setdefault(method, []).append(f"{task} at {length:,}")
    if not absent:
        return "Every cell of the declared grid holds observations."
    return "Cells of the declared grid without an observation:\n\n" + markdown.bullets(
        f"{look(method).label}: {', '.join(names) if cells.of(method) else 'all of its cells'}"
        for method, names in absent.items()
    )


def every_cell(cells: Cells) -> str:
    """A row for each cell that holds observations."""
    found = {(cell.task, cell.length, cell.method): cell for m in cells.methods for cell in cells.of(m)}
    rows = [
        _row(found[task, length, method])
        for task in cells.tasks
        for length in cells.lengths
        for method in cells.methods
        if (task, length, method) in found
    ]
    less_plain = (f"less plain: {COLUMNS[0]}", *COLUMNS[1:3], "p below plain")
    return markdown.table(("cell", "method", "n", "log-probability", "accuracy", *less_plain), rows)


def _row(cell: Cell) -> tuple[str, ...]:
    beside = cell.beside_plain
    return (
        f"{cell.task} at {cell.length:,}",
        cell.method,
        str(cell.logprob.count),
        notation.mean(cell.logprob),
        notation.mean(cell.accuracy),
        *((notation.NOTHING,) * 3 if beside is None else numbers(beside)[:3]),
        notation.p_value(cell.below_plain),
    )
