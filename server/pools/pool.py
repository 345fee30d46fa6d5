"""What the samples of one split are made of."""

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Tag:
    """A sentence that gives a `{thing}` a `{value}`, without its stop; question and lead-in name a `{kind}`.

    The sentence shares no content word with the other two.
    """

    told: str
    asked: str
    lead_in: str
    values: range


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
    """The books, names and templates of a split; it shares none with another split.

    `things`: by what kind of thing they are.
    """

    books: tuple[str, ...]
    names: tuple[str, ...]
    things: Mapping[str, tuple[str, ...]]
    tags: tuple[Tag, ...]
    families: tuple[Family, ...]
    subjects: tuple[Subject, ...]
