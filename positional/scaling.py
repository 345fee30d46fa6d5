"""What a scaling rule may say in transformers' spelling: its names, their ranges, what must be there."""

import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from positional.profile import ROPE_TYPES, ParameterValue, ProfileError

ORIGINAL = "original_max_position_embeddings"


@dataclass(frozen=True, slots=True)
class _Range:
    """A parameter's values: the test for one and the words for it."""

    holds: Callable[[Any], bool]
    words: str


def _is_number(value: Any) -> bool:
    # Not math.isfinite: a whole number may be too large to become a float.
    return (
        isinstance(value, int | float)
        and not isinstance(value, bool)
        and abs(value) <= sys.float_info.max  # false for NaN too
    )


def _at_least(low: float) -> Callable[[Any], bool]:
    return lambda value: _is_number(value) and value >= low


def _above(low: float) -> Callable[[Any], bool]:
    return lambda value: _is_number(value) and value > low


def _is_length(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 1 <= value < 2**31


BASE = _Range(_above(1), "must be a finite number above 1")
_FACTOR = _Range(_at_least(1), "must be a finite number of at least 1")
_POSITIVE = _Range(_above(0), "must be a finite number above 0")
_LENGTH = _Range(_is_length, "must be a whole number of tokens")
_BOOLEAN = _Range(lambda value: isinstance(value, bool), "must be true or false")
# Longrope's lists have their own check, since their length is the model's.
_LIST = _Range(lambda value: isinstance(value, list | tuple), "must be a list of numbers")

_KNOWN: dict[str, dict[str, _Range]] = {
    "default": {},
    "linear": {"factor": _FACTOR},
    "dynamic": {"factor": _FACTOR},
    "yarn": {
        "factor": _FACTOR,
        ORIGINAL: _LENGTH,
        "attention_factor": _POSITIVE,
        "beta_fast": _POSITIVE,
        "beta_slow": _POSITIVE,
        "mscale": _POSITIVE,
        "mscale_all_dim": _POSITIVE,
        "truncate": _BOOLEAN,
    },
    "llama3": {
        "factor": _FACTOR,
        ORIGINAL: _LENGTH,
        "low_freq_factor": _POSITIVE,
        "high_freq_factor": _POSITIVE,
    },
    "longrope": {
        "factor": _FACTOR,
        ORIGINAL: _LENGTH,
        "attention_factor": _POSITIVE,
        "short_factor": _LIST,
        "long_factor": _LIST,
    },
}
_REQUIRED = {
    "default": (),
    "linear": ("factor",),
    "dynamic": ("factor",),
    "yarn": ("factor",),
    "llama3": ("factor", "low_freq_factor", "high_freq_factor"),
    "longrope": ("short_factor", "long_factor"),
}
_ELSEWHERE = {
    "rope_theta": "must be given as base, beside the scaling",
    "type": "must be given as rope_type",
    "partial_rotary_factor": "is the model's own and cannot be replaced",
}
_YARN_BETAS = {"beta_fast": 32, "beta_slow": 1}


def read_scaling(scaling: object, planes: int) -> tuple[str, dict[str, ParameterValue]]:
    """The rule's type and its parameters, lists as tuples, what was null left out.

    Raises ProfileError, naming `scaling.…`, for a name that the type does not know, a value out of range
    (NaN, infinities, booleans and texts are no numbers), and what is missing. `planes`: the length of
    longrope's lists.
    """
    if not isinstance(scaling, Mapping):
        raise ProfileError("scaling", scaling, "must be an object")
    given = {str(name): value for name, value in scaling.items() if value is not None}
    rope_type = given.pop("rope_type", None)
    if not isinstance(rope_type, str) or rope_type not in ROPE_TYPES:
        raise ProfileError("scaling.rope_type", rope_type, f"must be one of {', '.join(ROPE_TYPES)}")
    for name, value in given.items():
        _check_value(rope_type, name, value)
    for name in _REQUIRED[rope_type]:
        if name not in given:
            raise ProfileError(f"scaling.{name}", None, f"is missing; {rope_type} needs it")
    parameters = {n: tuple(v) if isinstance(v, list) else v for n, v in given.items()}
    _check_together(rope_type, parameters, planes)
    return rope_type, parameters


def _check_value(rope_type: str, name: str, value: object) -> None:
    if name in _ELSEWHERE:
        raise ProfileError(f"scaling.{name}", value, _ELSEWHERE[name])
    known = _KNOWN[rope_type]
    if name not in known:
        names = ", ".join(("rope_type", *known))
        raise ProfileError(f"scaling.{name}", value, f"is unknown to {rope_type}; known are {names}")
    if not known[name].holds(value):
        raise ProfileError(f"scaling.{name}", value, known[name].words)


def _check_together(rope_type: str, parameters: Mapping[str, Any], planes: int) -> None:
    """What only several values together show."""
    match rope_type:
        case "yarn":
            beta_fast, beta_slow = (parameters.get(n, default) for n, default in _YARN_BETAS.items())
            if not beta_fast >= beta_slow:
                raise ProfileError("scaling.beta_fast", beta_fast, f"must be at least beta_slow, {beta_slow}")
            pair = ("mscale", "mscale_all_dim")
            if sum(name in parameters for name in pair) == 1:
                missing = next(name for name in pair if name not in parameters)
                raise ProfileError(f"scaling.{missing}", None, "is missing; mscale needs both of its numbers")
        case "llama3":
            low, high = parameters["low_freq_factor"], parameters["high_freq_factor"]
            if not high > low:
                raise ProfileError("scaling.high_freq_factor", high, f"must be above low_freq_factor, {low}")
        case "longrope":
            for name in ("short_factor", "long_factor"):
                _check_list(f"scaling.{name}", parameters[name], planes)


def _check_list(field: str, values: object, planes: int) -> None:
    if not isinstance(values, tuple) or len(values) != planes:
        raise ProfileError(field, values, f"must hold {planes} numbers, one a plane")
    for index, value in enumerate(values):
        if not _POSITIVE.holds(value):
            raise ProfileError(f"{field}[{index}]", value, _POSITIVE.words)
