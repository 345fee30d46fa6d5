"""The page: a table of all encodings under the contract, then each family with its plots and numbers."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import get_args

from loadtests.encodings.costs import costs
from loadtests.encodings.curves import FAR, NEAR, Curve
from loadtests.encodings.figures import FOLDER, alt, figure
from loadtests.encodings.notes import NOTES
from loadtests.encodings.served import served
from loadtests.results import markdown
from loadtests.results.drawing import Plot
from positional.encodings.registry import HEAD, LATENT, Entry, Family, encodings

NAME = "encodings.md"
COMMAND = ".venv/bin/python -m loadtests.encodings"
DISTANCES = (0, 1, 4, 16, 64, 256, 512)
TITLES: Mapping[Family, str] = {
    "added": "None, and positions added to embeddings",
    "rotary": "Rotary",
    "multiplicative": "Multiplicative GRAPE",
    "additive": "Biases of logits, and additive GRAPE",
    "generator": "Groups from a spectrum",
    "warp": "Relative warps, for comparison",
}
_INTRODUCTION = f"""# Encodings of position

Written by `{COMMAND}` from `positional/encodings/`; not by hand.

Every encoding there says by one contract (`positional.encodings.contract`) how it meets a cache:

- **acts on** the embedding, queries and keys (`query_key`), logits, or a recurrent state;
- **a cached key stays right** for as long as the sequence goes on (`fixed`), until the sequence grows over
  some length unless that is settled beforehand (`grows`), or for no two queries (`end_point`);
- **relative**: the positional part of a score depends on the displacement alone (`exact`), on a difference
  of sums over what the tokens themselves say (`phase`), or on more (`no`);
- **servable**: whether a paged cache of keys and values can hold it;
- **bytes** of one layer and token, where a key and a value of one head are {HEAD.key_width} numbers of
  {HEAD.element_size} bytes each, with what a key holds beyond its content. The decoupled one stands beside a
  latent of {LATENT.key_width} numbers, which all heads share; a state keeps nothing of a single token."""
_READING = f"""## Scores by distance

The plots show the score of a query and a key that hold ones, divided by √{HEAD.key_width},
over their distance, of a query at {FAR} and of one at {NEAR}. Where an encoding is exactly relative the two
lines are one. The tables give the numbers of the query at {FAR}, and the most that the other's differ by."""


def pages(docs: Path) -> Mapping[str, str]:
    """Text by path from the folder of the documentation, `docs`: the page first, then its plots.

    What was measured lies there. Raises ValueError where it cannot be read.
    """
    families = _families()
    plots = (figure(family, TITLES[family], curves) for family, curves in families.items())
    return {NAME: text(docs, families), **{f"{FOLDER}/{one.name}": one.svg for one in plots}}


def text(docs: Path, families: Mapping[Family, Sequence[Curve]] | None = None) -> str:
    """The page alone, which draws nothing."""
    sections = (_section(family, curves) for family, curves in (families or _families()).items())
    return "\n\n".join((_INTRODUCTION, _table(), served(), costs(docs), _READING, *sections)) + "\n"


def _families() -> Mapping[Family, Sequence[Curve]]:
    families: tuple[Family, ...] = get_args(Family)
    return {
        family: [Curve.of(entry) for entry in encodings() if entry.family == family] for family in families
    }


def _table() -> str:
    head = ("encoding", "acts on", "a cached key stays right", "relative", "servable", "bytes")
    return markdown.table(head, [_row(entry) for entry in encodings()], texts=5)


def _row(entry: Entry) -> tuple[str, ...]:
    contract = entry.example.contract
    served = markdown.value(contract.servable)
    bytes_ = str(entry.bytes_per_token)
    return entry.title, contract.acts, contract.cache_rule, contract.relative, served, bytes_


def _section(family: Family, curves: Sequence[Curve]) -> str:
    title = TITLES[family]
    shown = Plot(f"{family}.svg", "", alt(title, curves))
    parts = (
        f"## {title}",
        NOTES[family],
        markdown.table(
            ("encoding", "from", "built in", "needs of each token", "a cached key holds", "and so"),
            [_words(curve.entry) for curve in curves],
            texts=6,
        ),
        markdown.picture(shown, FOLDER),
        markdown.table(
            ("encoding", *(str(distance) for distance in DISTANCES), f"the query at {NEAR} differs by"),
            [_numbers(curve) for curve in curves],
        ),
    )
    return "\n\n".join(parts)


def _words(entry: Entry) -> tuple[str, ...]:
    contract = entry.example.contract
    module = f"`{entry.module.removeprefix('positional.')}`"
    return entry.title, entry.source, module, contract.needs, contract.cached, contract.why


def _numbers(curve: Curve) -> tuple[str, ...]:
    scores = (_number(curve.far[distance]) for distance in DISTANCES)
    return curve.entry.title, *scores, _number(curve.departure)


def _number(value: float) -> str:
    """Three digits, and no minus before zero."""
    return f"{round(value, 3) + 0.0:.3f}"
