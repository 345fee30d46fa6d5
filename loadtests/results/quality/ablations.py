"""What each part of QGPM is worth: one thing changed at a time, with gold evidence."""

from loadtests.quality import notation
from loadtests.quality.cells import Cells, Comparison
from loadtests.quality.methods import MAIN, METHODS
from loadtests.results import markdown
from loadtests.results.quality.numbers import COLUMNS, numbers

ABLATIONS = tuple(method for method in METHODS if method not in MAIN)
BASE = "gold"


def ablated(cells: Cells) -> list[tuple[str, Comparison]]:
    """Every ablation that was observed beside QGPM with gold evidence."""
    found = ((method, cells.compare(method, cells.tasks, cells.lengths, BASE)) for method in ABLATIONS)
    return [(method, beside) for method, beside in found if beside is not None]


def ablations(cells: Cells) -> str:
    """A row for each; nothing where none was observed."""
    rows = []
    for method, beside in ablated(cells):
        lengths = markdown.value(sorted({cell.length for cell in cells.of(method)}))
        plain = cells.compare(method, cells.tasks, cells.lengths)
        less_plain = notation.NOTHING if plain is None else notation.interval(plain.logprob)
        rows.append((method, lengths, *numbers(beside), less_plain))
    if not rows:
        return ""
    return "\n\n".join(
        (
            "### Ablations",
            "Each changes one thing of QGPM with gold evidence and is set beside it, over all tasks:",
            markdown.table(("changed; less gold evidence", "tokens", *COLUMNS, "less plain, nats"), rows),
        )
    )
