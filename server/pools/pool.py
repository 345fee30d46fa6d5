"""What the samples of one split are made of."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Fact:
    """A sentence about `{name}`, without its stop, and a question that it answers in other words."""

    told: str
    asked: str


@dataclass(frozen=True, slots=True)
class Family:
    """A sentence that gives `{name}` a `{value}`, without its stop; questions for one value and for all."""

    told: str
    asked: str
    asked_for_all: str
    values: range | tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Relation:
    """A sentence that ties `{short}` (the last word of a name) to a `{value}`; the question says `{name}`."""

    told: str
    asked: str
    values: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Subject:
    """A kind of things that paragraphs are about: their names, first sentences and relations."""

    names: tuple[str, ...]
    openings: tuple[str, ...]
    relations: tuple[Relation, ...]


@dataclass(frozen=True, slots=True)
class Pool:
    """The books, names and templates of a split; it shares none with another split."""

    books: tuple[str, ...]
    names: tuple[str, ...]
    facts: tuple[Fact, ...]
    families: tuple[Family, ...]
    subjects: tuple[Subject, ...]
