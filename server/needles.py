"""Sentences to hide in a text, with a question that they answer: one maker for each kind of sample.

`single`, `multi_key` and `multi_value` follow RULER's definitions: one key with one value; one of several
keys with a value each; one key with several values, all asked for. `indirect` follows NoLiMa's: question and
sentence share no content word, as where one tells of a trumpet and the other asks about a musical instrument;
like sentences tell of other kinds of things. All words are the project's own.
"""

import random
from dataclasses import dataclass
from typing import Literal

from server.pools.pool import Family, Pool

NeedleKind = Literal["single", "multi_key", "multi_value", "indirect"]
MULTI_KEYS = (4, 10)
MULTI_VALUES = 4
INDIRECT_THINGS = (4, 8)


@dataclass(frozen=True, slots=True)
class Needles:
    """Texts to hide in another, the one whose depth is set first; the evidence is in them.

    `answers`: what each sentence of `evidence` tells, in its order. `lead_in`: how a sentence begins that
    goes on with an answer.
    """

    texts: tuple[str, ...]
    evidence: tuple[str, ...]
    question: str
    answers: tuple[str, ...]
    lead_in: str


def needles(pool: Pool, kind: NeedleKind, draw: random.Random) -> Needles:
    """Drawn from the pool of a split."""
    return _MAKERS[kind](pool, draw)


def _indirect(pool: Pool, draw: random.Random) -> Needles:
    tag = draw.choice(pool.tags)
    kinds = draw.sample(list(pool.things), draw.randint(*INDIRECT_THINGS))
    values = draw.sample(tag.values, len(kinds))
    sentences = tuple(
        tag.told.format(thing=draw.choice(pool.things[kind]), value=value) + "."
        for kind, value in zip(kinds, values, strict=True)
    )
    asked, lead_in = (text.format(kind=kinds[0]) for text in (tag.asked, tag.lead_in))
    return Needles(sentences, sentences[:1], asked, (str(values[0]),), lead_in)


def _single(pool: Pool, draw: random.Random) -> Needles:
    return _keyed(draw.choice(pool.families), draw.sample(pool.names, 1), draw)


def _multi_key(pool: Pool, draw: random.Random) -> Needles:
    family = draw.choice(pool.families)
    return _keyed(family, draw.sample(pool.names, draw.randint(*MULTI_KEYS)), draw)


def _multi_value(pool: Pool, draw: random.Random) -> Needles:
    family, name = draw.choice(pool.families), draw.choice(pool.names)
    values = _values(family, MULTI_VALUES, draw)
    sentences = tuple(_told(family, name, value) for value in values)
    return Needles(
        sentences, sentences, family.asked_for_all.format(name=name), values, _lead_in(family, name)
    )


def _keyed(family: Family, names: list[str], draw: random.Random) -> Needles:
    """A sentence for each name; the first is asked for."""
    values = _values(family, len(names), draw)
    sentences = tuple(_told(family, name, value) for name, value in zip(names, values, strict=True))
    asked = family.asked.format(name=names[0])
    return Needles(sentences, sentences[:1], asked, values[:1], _lead_in(family, names[0]))


def _values(family: Family, count: int, draw: random.Random) -> tuple[str, ...]:
    return tuple(str(value) for value in draw.sample(family.values, count))


def _lead_in(family: Family, name: str) -> str:
    return family.told.partition("{value}")[0].format(name=name).rstrip()


def _told(family: Family, name: str, value: str) -> str:
    return family.told.format(name=name, value=value) + "."


_MAKERS = {"single": _single, "multi_key": _multi_key, "multi_value": _multi_value, "indirect": _indirect}
