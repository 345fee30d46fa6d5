"""The section on answers, put together."""

from collections.abc import Iterator

from loadtests.quality.cells import Cells
from loadtests.quality.observations import Run
from loadtests.results import markdown
from loadtests.results.drawing import Plot
from loadtests.results.files import QUALITY
from loadtests.results.quality import plots
from loadtests.results.quality.ablations import ablated, ablations
from loadtests.results.quality.coverage import every_cell, not_run
from loadtests.results.quality.depths import depths
from loadtests.results.quality.dial import dial, dial_plot
from loadtests.results.quality.guarded import guarded
from loadtests.results.quality.ranks import answered_plainly, ranks
from loadtests.results.quality.sides import sides
from loadtests.results.quality.summary import OURS, by_task, pooled, reading, verdict
from loadtests.results.section import Section, missing, pictures

TITLE = "Do answers get better?"
COMMAND = f'make quality ARGS="--out docs/results/{QUALITY}"'

BY_LENGTH = (
    ("accuracy", "Accuracy, methods that change positions", plots.POSITIONS, plots.ACCURACY),
    ("difference", "Log-probability, methods that change positions", plots.POSITIONS, plots.DIFFERENCE),
    ("edits-accuracy", "Accuracy, QGPM and prompt edits", plots.EDITS, plots.ACCURACY),
    ("edits-difference", "Log-probability, QGPM and prompt edits", plots.EDITS, plots.DIFFERENCE),
)


def section(run: Run | None) -> Section:
    """Everything that a quality run says."""
    if run is None:
        return missing(TITLE, QUALITY, COMMAND)
    if not run.observations:
        return Section(TITLE, (_setting(run), "**Nothing was observed yet.**"))
    cells = Cells(run)
    shown = tuple(_plots(cells))
    paragraphs = (
        _setting(run),
        pooled(cells),
        reading(cells),
        *(verdict(cells, method) for method in OURS),
        by_task(cells),
        pictures(shown),
        "### Where it loses, and where it gains",
        *(sides(cells.of(method)) for method in OURS if cells.of(method)),
        ranks(cells),
        answered_plainly(cells),
        guarded(cells),
        dial(cells),
        ablations(cells),
        depths(cells),
        "### Every cell",
        not_run(cells),
        markdown.folded("All cells that hold observations", every_cell(cells)),
    )
    return Section(TITLE, tuple(paragraph for paragraph in paragraphs if paragraph), shown)


def _setting(run: Run) -> str:
    methods = "; ".join(f"{name} at {markdown.value(lengths)}" for name, lengths in run.grid.methods.items())
    return "\n".join(
        (
            markdown.setting(run.setting, without=("grid",)),
            markdown.bullets(
                (f"tasks: {markdown.value(run.grid.tasks)}", f"methods, at tokens of the context: {methods}")
            ),
        )
    )


def _plots(cells: Cells) -> Iterator[Plot]:
    for name, title, methods, shown in BY_LENGTH:
        if (drawn := plots.by_length(cells, methods, name, title, shown)) is not None:
            yield drawn
    if (drawn := dial_plot(cells)) is not None:
        yield drawn
    if rows := ablated(cells):
        yield plots.pooled("Ablations of QGPM with gold evidence", "ablations", rows)
