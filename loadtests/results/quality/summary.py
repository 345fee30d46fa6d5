"""What a run says in short: each method less plain, pooled over cells, and task by task."""

from loadtests.quality import notation
from loadtests.quality.cells import PLAIN, RETRIEVAL, Cells
from loadtests.quality.observations import REFERENCE
from loadtests.quality.statistics import TIE
from loadtests.results import markdown
from loadtests.results.drawing import look
from loadtests.results.quality.ablations import ABLATIONS
from loadtests.results.quality.numbers import COLUMNS, numbers

OURS = ("gold", "qgpm", "qgpm_guarded")
FEW = 20


def pooled(cells: Cells) -> str:
    """One row for each method and group of tasks."""
    rows = []
    for method in cells.methods:
        if method in (PLAIN, *ABLATIONS):
            continue
        lengths = markdown.value(sorted({cell.length for cell in cells.of(method)}))
        for name, tasks in (("retrieval", RETRIEVAL), ("all", cells.tasks)):
            if (beside := cells.compare(method, tasks, cells.lengths)) is not None:
                rows.append((f"{look(method).label}, {name} tasks", lengths, *numbers(beside)))
    if not rows:
        return "No method was observed beside plain on the same samples."
    return markdown.table(("less plain, mean over cells", "tokens", *COLUMNS), rows)


def reading(cells: Cells) -> str:
    """How to read the tables, and how much they stand on."""
    counts = [cell.logprob.count for method in cells.methods for cell in cells.of(method)]
    text = (
        "Every difference is taken on the same samples, by log-probability of the gold answer (nats) and by "
        "accuracy of the greedy one (percentage points). Means give every cell (task and length) the same "
        f"weight; retrieval tasks are {', '.join(RETRIEVAL)}. W/T/L: samples won, tied (within {TIE} nats) "
        f"and lost by log-probability. Cells hold {min(counts)} to {max(counts)} samples."
    )
    if min(counts) < FEW:
        text += f" Intervals of fewer than {FEW} samples are too narrow: read them as hints."
    if foreign := sorted(
        {look(seen.method).label for seen in cells.run.observations if seen.mode == REFERENCE}
    ):
        text += f" {', '.join(foreign)}: by a transformers model, beside the server's plain answers."
    return text


def verdict(cells: Cells, method: str) -> str:
    """The main question in a sentence: the mean over the retrieval tasks, and whether it is beyond doubt."""
    beside = cells.compare(method, RETRIEVAL, cells.lengths)
    if beside is None:
        return f"**{look(method).label}** was not observed on retrieval tasks."
    said = "not told apart from plain"
    if beside.logprob.above:
        said = "better than plain, beyond its interval"
    elif beside.logprob.below:
        said = "**worse** than plain, beyond its interval"
    return (
        f"**{look(method).label}** on the retrieval tasks: {notation.interval(beside.logprob)} nats and "
        f"{notation.points(beside.accuracy)} points of accuracy; by log-probability {said}."
    )


def by_task(cells: Cells) -> str:
    """Our methods beside plain, task by task over all lengths."""
    methods = [method for method in OURS if cells.of(method)]
    rows = []
    for task in cells.tasks:
        row = [task]
        for method in methods:
            beside = cells.compare(method, (task,), cells.lengths)
            row += [notation.NOTHING] * 2 if beside is None else list(numbers(beside)[:2])
        rows.append(row)
    head = ["less plain, mean over lengths"]
    for method in methods:
        head += [f"{look(method).label}: nats (95 %)", "points (95 %)"]
    return markdown.table(head, rows) if methods else ""
