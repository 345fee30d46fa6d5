"""The table that a quality run ends with."""

from rich.table import Table

from loadtests.quality import notation
from loadtests.quality.cells import Cell, Cells


def table(cells: Cells) -> Table:
    """One row for each cell that holds observations, the methods of a task and length together."""
    rows = Table(
        "task",
        "length",
        "method",
        "n",
        "log-probability",
        "accuracy",
        "beside plain (95 %)",
        "wins/ties/losses",
        "p below plain",
        title="Log-probability of the gold answer (nats) and greedy accuracy",
    )
    found = {(cell.task, cell.length, cell.method): cell for m in cells.methods for cell in cells.of(m)}
    for task in cells.tasks:
        for length in cells.lengths:
            for method in cells.methods:
                if (cell := found.get((task, length, method))) is not None:
                    rows.add_row(*_row(cell))
            rows.add_section()
    return rows


def _row(cell: Cell) -> tuple[str, ...]:
    beside = cell.beside_plain
    return (
        cell.task,
        f"{cell.length:,}",
        cell.method,
        str(cell.logprob.count),
        notation.mean(cell.logprob),
        notation.mean(cell.accuracy),
        notation.NOTHING if beside is None else notation.interval(beside.logprob),
        notation.NOTHING if beside is None else notation.outcomes(beside.outcomes),
        notation.p_value(cell.below_plain),
    )
