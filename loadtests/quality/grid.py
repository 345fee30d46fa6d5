"""The grid of a run: which methods are asked about samples of which lengths."""

from collections.abc import Collection, Iterator, Sequence

from loadtests.quality.cells import PLAIN
from loadtests.quality.methods import MAIN, METHODS, SOURCES
from loadtests.quality.observations import Grid
from loadtests.quality.warping import BASELINES
from server.samples import LENGTHS

ABLATION_LENGTH = 2000
"""Where methods beside the main ones are asked."""

ROOM = 512
"""Tokens of template, instruction, question and answer beside the context."""


class GridError(ValueError):
    """A model whose window has no room for any sample."""


def lengths(window: int, full: bool) -> tuple[int, ...]:
    """Contexts for a model that sees `window` tokens; `full`: doubled on from the longest, and what fits.

    Raises GridError.
    """
    longest = window - ROOM
    declared = [length for length in LENGTHS if length <= longest]
    if not declared:
        raise GridError(f"a window of {window} tokens has no room for a sample of {LENGTHS[0]}")
    return (*declared, *(_longer(longest) if full else ()))


def check_fitting(lengths: Sequence[int], window: int) -> None:
    """Raises GridError where a data set's samples are longer than what the model sees."""
    if max(lengths) > window:
        raise GridError(f"samples of {max(lengths):,} tokens do not fit into a window of {window:,}")


def grid(
    tasks: Sequence[str], known: Sequence[int], full: bool, chosen: Collection[str] | None = None
) -> Grid:
    """All tasks by all methods; `full`: at every length, else those beside the main ones at one.

    Or by the `chosen` ones alone, and plain, at every length.
    """
    if chosen is not None:
        return Grid(tuple(tasks), dict.fromkeys((PLAIN, *chosen), tuple(known)))
    few = tuple(known) if full else (min(known, key=lambda length: abs(length - ABLATION_LENGTH)),)
    others = (method for method in (*METHODS, *SOURCES, *BASELINES) if method not in MAIN)
    return Grid(tuple(tasks), {**dict.fromkeys(MAIN, tuple(known)), **dict.fromkeys(others, few)})


def part(whole: Grid, methods: Collection[str]) -> Grid:
    """What of a grid some methods have."""
    return Grid(whole.tasks, {name: of for name, of in whole.methods.items() if name in methods})


def _longer(longest: int) -> Iterator[int]:
    length = 2 * LENGTHS[-1]
    while 2 * length <= longest:
        yield length
        length *= 2
    if longest > LENGTHS[-1]:
        yield longest
