"""What the guard let pass: how many requests were modulated, task by task."""

from collections.abc import Mapping

from loadtests.quality import notation
from loadtests.quality.cells import PLAIN, Cells
from loadtests.quality.methods import CHANCE as CHANCES
from loadtests.quality.methods import GUARDED
from loadtests.quality.observations import Run
from loadtests.quality.statistics import holm
from loadtests.results import markdown
from loadtests.results.drawing import look
from loadtests.results.files import CHANCE
from loadtests.results.quality.sides import LEVEL
from loadtests.results.section import Section, missing

WITHOUT: Mapping[str, str] = {
    "chance_guarded": PLAIN,
    **{f"{name}_chance_guarded": f"{name}_guarded" for name in ("heads", "lexical", "heads_lexical")},
}
"""Beside what each method stands that chance speaks in."""

_TITLE = "Does the guard tell chance from relevance?"
_METHODS = ",".join(dict.fromkeys([*WITHOUT, *(base for base in WITHOUT.values() if base != PLAIN)]))
COMMAND = f'make quality ARGS="--out docs/results/{CHANCE} --methods {_METHODS}"'


def guarded(cells: Cells) -> str:
    """The share of requests that were modulated, by task; nothing where no method had a guard."""
    methods = [method for method in cells.methods if method in {*GUARDED, *CHANCES} and cells.of(method)]
    if not methods:
        return ""
    rows = [
        (look(method).label, *(_share(cells, method, (task,)) for task in cells.tasks), _share(cells, method))
        for method in methods
    ]
    return "\n\n".join(
        (
            "### What the guard lets pass",
            "Modulated requests under the default dial; the others were answered plainly:",
            markdown.table(("relevance", *cells.tasks, "all"), rows, texts=1),
        )
    )


def chance(run: Run | None) -> Section:
    """The section on embeddings that say nothing, alone and fused with what says something."""
    if run is None:
        return missing(_TITLE, CHANCE, COMMAND)
    cells = Cells(run)
    rows = []
    for method, base in WITHOUT.items():
        beside = cells.compare(method, cells.tasks, cells.lengths, base)
        if beside is not None:
            worse = _worse_cells(cells, method, base)
            rows.append(
                (
                    look(method).label,
                    look(base).label,
                    _share(cells, method),
                    notation.interval(beside.logprob),
                    str(beside.pairs),
                    f"{worse} of {beside.cells}",
                )
            )
    head = ("relevance", "beside", "modulated", "nats (95 %)", "n", "cells worse (Holm)")
    return Section(
        _TITLE,
        (
            markdown.setting(run.setting, without=("grid",)),
            "Embeddings that are normal numbers rank, alone or fused with what does say something, beside "
            "the same without them, on the same samples:",
            markdown.table(head, rows, texts=2),
        ),
    )


def _worse_cells(cells: Cells, method: str, base: str) -> int:
    """Cells in which a method is below another, by Holm's steps over all of them."""
    found = (cells.p_below(task, length, method, base) for task in cells.tasks for length in cells.lengths)
    values = [value for value in found if value is not None]
    return sum(p < LEVEL for p in holm(values))


def _share(cells: Cells, method: str, tasks: tuple[str, ...] | None = None) -> str:
    modes = [
        seen.mode
        for task in tasks or cells.tasks
        for length in cells.lengths
        for seen in cells.samples(task, length, method).values()
    ]
    modulated = len(modes) - modes.count(PLAIN)
    return (
        f"{modulated} of {len(modes)} ({100 * modulated / len(modes):.0f} %)" if modes else notation.NOTHING
    )
