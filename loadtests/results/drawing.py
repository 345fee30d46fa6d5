"""How every plot looks, and how it becomes an SVG that is the same for the same data.

Text and lines are dark on light; where a page is dark, a rule in the SVG turns paper, ink and grid round, so
that both are readable. No series is told by its colour alone: each has a marker of its own.
"""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from io import StringIO
from typing import Any

import matplotlib
from matplotlib.axes import Axes
from matplotlib.figure import Figure

PAPER, INK, GRID = "#ffffff", "#1f2328", "#d1d9e0"
DARK = {PAPER: "#0d1117", INK: "#e6edf3", GRID: "#3d444d"}

_STYLE: Any = {
    "svg.hashsalt": "ropeway",
    "svg.fonttype": "none",
    "font.size": 10.0,
    "figure.facecolor": PAPER,
    "axes.facecolor": PAPER,
    "axes.edgecolor": INK,
    "axes.labelcolor": INK,
    "axes.titlecolor": INK,
    "axes.titlesize": 11.0,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "axes.axisbelow": True,
    "grid.color": GRID,
    "grid.linewidth": 0.6,
    "text.color": INK,
    "xtick.color": INK,
    "ytick.color": INK,
    "legend.frameon": False,
    "lines.linewidth": 1.6,
    "lines.markersize": 5.5,
}


@dataclass(frozen=True, slots=True)
class Look:
    """How one series is drawn."""

    label: str
    colour: str
    marker: str
    line: str = "-"


# Every colour stands out by at least 3:1 from both papers.
LOOKS: Mapping[str, Look] = {
    "plain": Look("plain", "#6e7781", "o"),
    "qgpm": Look("QGPM", "#d55e00", "s"),
    "qgpm_guarded": Look("QGPM as served", "#0072b2", "h"),
    "gold": Look("QGPM, gold evidence", "#1a7f37", "D", "--"),
    "lexical": Look("BM25", "#0072b2", "<"),
    "embedding": Look("embeddings", "#1a7f37", ">"),
    "heads_lexical": Look("heads and BM25", "#9a5fd0", "p"),
    "lexical_embedding": Look("BM25 and embeddings", "#6e7781", "X", "--"),
    "fused": Look("all three", "#d55e00", "*", "--"),
    "top_k": Look("Top-K", "#9a5fd0", "^"),
    "reorder": Look("Reorder", "#9a5fd0", "v"),
    "string": Look("STRING", "#0072b2", "P"),
    "self_extend": Look("Self-Extend", "#6e7781", "x", ":"),
    "rerope": Look("ReRoPE", "#6e7781", "1", ":"),
    "leaky_rerope": Look("Leaky ReRoPE", "#6e7781", "2", ":"),
    "ms_poe": Look("Ms-PoE", "#6e7781", "+", ":"),
}

_NAMES: Mapping[str, str] = {
    "heads_chance": "heads and chance",
    "lexical_chance": "BM25 and chance",
    "heads_lexical_chance": "heads, BM25 and chance",
}
_GUARDED = "_guarded"


def look(method: str) -> Look:
    """A method's look; one that has none of its own is drawn neutrally under its name."""
    return LOOKS.get(method) or Look(_name(method), "#6e7781", "o")


def _name(method: str) -> str:
    if method.endswith(_GUARDED):
        return f"{look(method.removesuffix(_GUARDED)).label}, guarded"
    return _NAMES.get(method, method)


@dataclass(frozen=True, slots=True)
class Plot:
    """A finished plot: its file's name, its SVG, and in words what it shows."""

    name: str
    svg: str
    alt: str


@contextmanager
def drawn(
    width: float, height: float, rows: int = 1, columns: int = 1
) -> Iterator[tuple[Figure, Sequence[Axes]]]:
    """An empty figure (inches) with so many axes, row by row, while the style holds."""
    with matplotlib.rc_context(_STYLE):
        figure = Figure(figsize=(width, height), layout="constrained")
        yield figure, list(figure.subplots(rows, columns, squeeze=False).flat)


def plot(figure: Figure, name: str, title: str, alt: str) -> Plot:
    """The figure as an SVG of this name. To be called while the style holds."""
    text = StringIO()
    metadata = {"Title": title, "Description": alt, "Date": None, "Creator": None}
    figure.savefig(text, format="svg", metadata=metadata)
    lines = (line.rstrip() for line in text.getvalue().splitlines())
    return Plot(f"{name}.svg", "\n".join(lines).replace("</style>", f"{_dark()}</style>", 1) + "\n", alt)


def _dark() -> str:
    """Rules that turn the colours of paper, ink and grid where the page is dark."""
    rules = [
        f'[style*="{paint}: {light}"]{{{paint}:{dark} !important}}'
        for light, dark in DARK.items()
        for paint in ("fill", "stroke")
    ]
    return f"@media (prefers-color-scheme: dark){{{''.join(rules)}}}"
