"""Whether what stands in the middle is lost: log-probability and accuracy by depth."""

from itertools import pairwise

from loadtests.quality import notation
from loadtests.quality.cells import PLAIN, Cells
from loadtests.quality.observations import Observation
from loadtests.quality.statistics import Mean
from loadtests.results import markdown
from loadtests.results.drawing import look

METHODS = (PLAIN, "gold", "qgpm")
EDGES = (0.0, 0.2, 0.4, 0.6, 0.8, 1.0)


def depths(cells: Cells) -> str:
    """A row for each fifth of the context."""
    methods = [method for method in METHODS if cells.of(method)]
    rows = []
    for low, high in pairwise(EDGES):
        row = [f"{100 * low:.0f} to {100 * high:.0f} %"]
        for method in methods:
            seen = [one for one in cells.run.observations if one.method == method and _inside(one, low, high)]
            row += _means(seen)
        rows.append(row)
    head = ["depth"]
    for method in methods:
        head += [f"{look(method).label}: nats", "accuracy", "n"]
    return "\n\n".join(
        (
            "### Where the evidence stands",
            "By the depth of the first gold sentence in the context, over all cells:",
            markdown.table(head, rows),
        )
    )


def _inside(seen: Observation, low: float, high: float) -> bool:
    return low <= seen.depth < high or seen.depth == high == EDGES[-1]


def _means(seen: list[Observation]) -> list[str]:
    if not seen:
        return [notation.NOTHING, notation.NOTHING, "0"]
    logprob = Mean.of([one.logprob for one in seen])
    accuracy = Mean.of([one.correct for one in seen])
    return [notation.mean(logprob), notation.mean(accuracy), str(len(seen))]
