"""Which sources of relevance are asked, as bodies and command lines say it."""

from argparse import ArgumentTypeError
from collections.abc import Iterable
from typing import get_args

from cache.head_profile import HeadProfile
from positional.sources.contract import SourceName
from positional.sources.fusion import HEAVIEST, Choice, equal

SOURCES: tuple[SourceName, ...] = get_args(SourceName)
HEADS = equal("heads")
CALLER = equal("caller")
FORMS = f"must be one of {', '.join(SOURCES)}, a list of some, or an object of their weights"

Weights = tuple[tuple[SourceName, float], ...]


class ChoiceError(ValueError):
    """A value that names no sources; the message says what would."""


def weights_of(value: object) -> Weights:
    """The sources that a JSON value names, with their weights; raises ChoiceError."""
    match value:
        case str():
            return _checked([(value, 1.0)])
        case list():
            return _checked((name, 1.0) for name in value)
        case dict():
            return _checked(value.items())
    raise ChoiceError(FORMS)


def default_choice(flag: Choice | None, heads: HeadProfile | None) -> Choice:
    """What requests that do not say ask: what the server was told to, else the head profile's, else heads."""
    if flag is not None:
        return flag
    tuned = None if heads is None else heads.relevance
    return HEADS if tuned is None else Choice(tuple(tuned.items()))


def choice_of_flag(text: str) -> Choice:
    """The sources that `NAME[=WEIGHT],…` names, summed; raises argparse's ArgumentTypeError."""
    try:
        choice = Choice(_checked(map(_weighed, text.split(","))))
    except (ChoiceError, ValueError) as error:
        raise ArgumentTypeError(f"{text!r} {error}") from error
    if "caller" in choice.sources:
        raise ArgumentTypeError("caller stands for a request's own evidence; requests name it themselves")
    return choice


def _weighed(part: str) -> tuple[str, float]:
    name, given, weight = part.partition("=")
    try:
        return name.strip(), float(weight) if given else 1.0
    except ValueError as error:
        raise ChoiceError(f"has a weight that is no number: {weight}") from error


def _checked(pairs: Iterable[tuple[object, object]]) -> Weights:
    weights: dict[SourceName, float] = {}
    for name, weight in pairs:
        if name not in SOURCES:
            raise ChoiceError(FORMS)
        if name in weights:
            raise ChoiceError(f"names {name} twice")
        if isinstance(weight, bool) or not isinstance(weight, int | float) or not 0 < weight <= HEAVIEST:
            raise ChoiceError(f"needs weights above 0 and up to {HEAVIEST:.0f}")
        weights[name] = float(weight)
    if not weights:
        raise ChoiceError(FORMS)
    return tuple(weights.items())
