"""In which cells a method loses to plain, in which it gains, and which are undecided: by name."""

from collections.abc import Sequence

from loadtests.quality import notation
from loadtests.quality.cells import Cell, Comparison
from loadtests.results import markdown
from loadtests.results.drawing import look

LEVEL = 0.05

Side = tuple[Cell, Comparison]


def sides(found: Sequence[Cell]) -> str:
    """Of the cells of one method. A cell that loses by one measure does not gain by the other."""
    label = look(found[0].method).label
    compared = [(cell, cell.beside_plain) for cell in found if cell.beside_plain is not None]
    if not compared:
        return f"**{label}** has no cell beside plain."
    below = [(cell, beside) for cell, beside in compared if beside.logprob.below or beside.accuracy.below]
    rest = [side for side in compared if side not in below]
    above = [(cell, beside) for cell, beside in rest if beside.logprob.above or beside.accuracy.above]
    between = [(cell, beside) for cell, beside in rest if (cell, beside) not in above]
    proven = sum(cell.below_plain is not None and cell.below_plain < LEVEL for cell, _ in compared)
    return "\n\n".join(
        (
            f"**{label} loses** in {len(below)} of {len(compared)} cells: below plain beyond the interval, "
            f"by log-probability or accuracy{_named(below)}",
            f"Corrected for the number of its cells (Holm), it is below plain in {proven} (p < {LEVEL}).",
            f"**{label} gains** in {len(above)}{_named(above)}",
            f"**Undecided** are {len(between)}{_grouped(between)}",
        )
    )


def _named(found: Sequence[Side]) -> str:
    if not found:
        return "."
    return ":\n\n" + markdown.bullets(
        f"{cell.name}: {notation.interval(beside.logprob)} nats, {notation.points(beside.accuracy)} points, "
        f"n {beside.pairs}, p below plain {notation.p_value(cell.below_plain)}"
        for cell, beside in found
    )


def _grouped(found: Sequence[Side]) -> str:
    """The names of cells, those of a task together, and how many of them have a mean below plain's."""
    if not found:
        return "."
    lengths: dict[str, list[str]] = {}
    for cell, _ in found:
        lengths.setdefault(cell.task, []).append(f"{cell.length:,}")
    named = "; ".join(f"{task} at {', '.join(at)}" for task, at in lengths.items())
    lower = sum(beside.logprob.mean < 0 for _, beside in found)
    return f", of which {lower} have a mean log-probability below plain's: {named}."
