"""Plots of score against distance: one figure a family, one panel an encoding."""

import math
from collections.abc import Sequence

from matplotlib.axes import Axes

from loadtests.encodings.curves import FAR, NEAR, Curve
from loadtests.results.drawing import Plot, drawn, plot

COLUMNS = 3
FOLDER = "encodings"
_EVERY = 64
"""Distances below are all shown, others every second time, which keeps the files small."""
_LINES = ((FAR, "#0072b2", "-"), (NEAR, "#d55e00", "--"))


def figure(name: str, title: str, curves: Sequence[Curve]) -> Plot:
    """The curves of one family, each in its own panel, under one legend."""
    rows = math.ceil(len(curves) / COLUMNS)
    with drawn(9.0, 0.5 + 2.0 * rows, rows, COLUMNS) as (drawing, panels):
        for panel in panels[len(curves) :]:
            panel.set_visible(False)
        for panel, curve in zip(panels, curves, strict=False):
            _draw(panel, curve)
        drawing.supxlabel("distance in tokens", fontsize="medium")
        drawing.supylabel("score", fontsize="medium")
        handles, labels = panels[0].get_legend_handles_labels()
        drawing.legend(handles, labels, loc="outside upper right", ncols=2)
        return plot(drawing, name, title, alt(title, curves))


def _draw(panel: Axes, curve: Curve) -> None:
    for (query, colour, line), scores in zip(_LINES, (curve.far, curve.near), strict=True):
        distances = [*range(_EVERY), *range(_EVERY, len(scores), 2)]
        shown = [scores[distance] for distance in distances]
        panel.plot(distances, shown, color=colour, linestyle=line, label=f"query at {query}")
    panel.set_title(curve.entry.title)


def alt(title: str, curves: Sequence[Curve]) -> str:
    """What a figure shows, in words."""
    parts = (f"{one.entry.title} from {one.far[0]:.1f} to {one.far[-1]:.1f}" for one in curves)
    return f"{title}, score from distance 0 to {FAR}: {'; '.join(parts)}."
