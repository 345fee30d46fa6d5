"""Questions about long texts whose evidence is known: to choose heads, tune QGPM's defaults and measure it.

A sample is a passage of the King James Version (public domain) with text of the project's own put in between.
Each of the three splits has books, names and templates that no other split has.
"""

import random
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Literal, get_args

from server import haystack
from server.needles import NeedleKind, Needles, needles
from server.paragraphs import paragraphs
from server.pools import calibration, evaluation, tuning
from server.pools.pool import Pool

Split = Literal["calibration", "tuning", "evaluation"]
Kind = Literal["single", "multi_key", "multi_value", "qa", "indirect"]
Message = tuple[str, str]
SPLITS: tuple[Split, ...] = get_args(Split)
KINDS: tuple[Kind, ...] = get_args(Kind)
CALIBRATION_KINDS: tuple[NeedleKind, ...] = ("indirect", "multi_key")
LENGTHS = (500, 1000, 2000, 4000)
DEPTHS = 11
_DEPTH_STEP = 4  # so that a few samples in a row already lie far apart; coprime to DEPTHS

POOLS: dict[Split, Pool] = {
    "calibration": calibration.POOL,
    "tuning": tuning.POOL,
    "evaluation": evaluation.POOL,
}
INSTRUCTION = "Read the text and answer the question about it in a few words."


@dataclass(frozen=True, slots=True)
class Sample:
    """A prompt and what is known about it; `context`, `question` and `evidence` occur in it word for word.

    `kind`: one of KINDS, or what a data set calls it. `evidence`: all gold sentences. `answers`: what
    a right answer must hold. `depth`: where the first of `evidence` starts, from 0 to 1 by the context's
    characters.
    """

    kind: str
    length: int
    messages: tuple[Message, ...]
    question: str
    context: str
    evidence: tuple[str, ...]
    answers: tuple[str, ...]
    lead_in: str
    depth: float

    @property
    def told(self) -> tuple[str, ...]:
        """Each of `answers` behind the lead-in."""
        return tuple(f"{self.lead_in} {answer}".lstrip() for answer in self.answers)


def sample(
    split: Split, kind: Kind, length: int, number: int, seed: int, count_tokens: Callable[[str], int]
) -> Sample:
    """Sample `number` of a kind and length, the same for the same arguments, another for another seed.

    `length` is that of the context in tokens by `count_tokens`, kept to within a sentence or two. Depths run
    evenly over 0 to 1 in steps of a tenth with the number. Raises SamplesError where the text's package is
    not installed.
    """
    pool, draw = POOLS[split], random.Random(f"{split}/{kind}/{length}/{seed}/{number}")
    depth = even_depth(number)
    if kind == "qa":
        hidden = paragraphs(pool, length // 2, count_tokens, draw)
        context = haystack.interleave(
            hidden.texts, _hay(pool, hidden, length, count_tokens, draw), draw, depth
        )
    else:
        hidden = needles(pool, kind, draw)
        context = haystack.hide(hidden.texts, _hay(pool, hidden, length, count_tokens, draw), draw, depth)
    return _sample(kind, length, hidden, context)


def even_depth(number: int) -> float:
    """From 0 to 1 in steps of a tenth: eleven numbers in a row have all of them."""
    return number * _DEPTH_STEP % DEPTHS / (DEPTHS - 1)


def depth_of(evidence: str, context: str) -> float:
    """Where the evidence starts in a longer context: 0 at its very start, 1 at its very end."""
    return context.index(evidence) / (len(context) - len(evidence))


def generate(
    split: Split,
    count: int,
    seed: int,
    count_tokens: Callable[[str], int],
    lengths: Sequence[int] = LENGTHS,
) -> Iterator[Sample]:
    """Samples of every kind that heads are chosen by and of every length in turn, at random depths.

    The same for the same arguments; `lengths` and errors are those of `sample`.
    """
    for number in range(count):
        draw = random.Random(f"{split}/{seed}/{number}")
        kind = CALIBRATION_KINDS[number % len(CALIBRATION_KINDS)]
        length = lengths[number // len(CALIBRATION_KINDS) % len(lengths)]
        hidden = needles(POOLS[split], kind, draw)
        hay = _hay(POOLS[split], hidden, length, count_tokens, draw)
        yield _sample(kind, length, hidden, haystack.hide(hidden.texts, hay, draw))


def _hay(
    pool: Pool, hidden: Needles, length: int, count_tokens: Callable[[str], int], draw: random.Random
) -> list[str]:
    """As much of the pool's books as fills the length beside what is hidden in it."""
    room = length - sum(count_tokens(text) for text in hidden.texts)
    return haystack.excerpt(haystack.sentences(pool.books), room, count_tokens, draw)


def _sample(kind: Kind, length: int, hidden: Needles, context: str) -> Sample:
    question = f"Question: {hidden.question}"
    told = zip(hidden.evidence, hidden.answers, strict=True)
    answers = tuple(answer for _, answer in sorted(told, key=lambda pair: context.index(pair[0])))
    return Sample(
        kind=kind,
        length=length,
        # No system message: not every model's template has a place for one.
        messages=(("user", f"{INSTRUCTION}\n\n{context}\n\n{question}"),),
        question=question,
        context=context,
        evidence=hidden.evidence,
        answers=answers,
        lead_in=hidden.lead_in,
        depth=depth_of(hidden.evidence[0], context),
    )
