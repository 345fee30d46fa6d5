"""The layer plan of `ropeway plan` as text."""

from collections.abc import Mapping, Sequence
from typing import Any

_LAYERS = (
    *("layer", "span", "rotary", "rule", "bias", "map", "query scale"),
    *("cached key", "relative", "bytes/token"),
)
_LENGTHS = ("tokens", "bytes a request", "without windows", "requests at once")
_NOTHING = "-"


def table(plan: Mapping[str, Any]) -> str:
    """One line a layer, then what requests of several lengths take of the cache."""
    cache = plan["cache"]
    layers = [_layer(layer, plan["profiles"]) for layer in plan["layers"]]
    lengths = [
        (
            f"{length['tokens']:,}",
            f"{length['bytes']:,}",
            f"{length['bytes'] / length['bytes_without_windows']:.0%} of {length['bytes_without_windows']:,}",
            f"{length['requests']:,}",
        )
        for length in cache["lengths"]
    ]
    return "\n".join(
        (
            f"{plan['model']}: {len(layers)} layers, {cache['bytes_per_token']:,} bytes of cache a token",
            "",
            *_columns([_LAYERS, *layers]),
            "",
            f"a block is shared by requests of the same {_identity(plan['identity'])}",
            f"cache of {cache['bytes_total']:,} bytes; a request while it decodes:",
            "",
            *_columns([_LENGTHS, *lengths]),
        )
    )


def _identity(names: Sequence[str]) -> str:
    """What tells blocks apart, as a list in words."""
    *first, last = ("tokens up to its end" if name == "tokens" else name for name in names)
    return f"{', '.join(first)} and {last}" if first else last


def _layer(layer: Mapping[str, Any], profiles: Mapping[str, Mapping[str, Any]]) -> tuple[str, ...]:
    profile = profiles.get(layer["profile"] or "")
    return (
        str(layer["layer"]),
        f"chunks of {layer['span']}" if layer["chunked"] else str(layer["span"]),
        _rotary(layer, profile),
        _NOTHING if profile is None else _rule(profile),
        layer["bias"] or _NOTHING,
        layer["map"],
        _query_scale(layer["query_scale"]),
        _cached(layer["cache"]),
        layer["cache"]["relative"],
        f"{layer['bytes_per_token']:,}",
    )


def _rotary(layer: Mapping[str, Any], profile: Mapping[str, Any] | None) -> str:
    """How wide it turns, in which pairs, and what of that is learned."""
    learned = [] if layer["learned"] is None else [f"learned {layer['learned']}"]
    fixed = [] if profile is None else [str(layer["rotary_dim"]), profile["pairing"]]
    return ", ".join([*fixed, *learned]) or _NOTHING


def _cached(cache: Mapping[str, Any]) -> str:
    """For how long a cached key holds, and what it holds beside its content."""
    extra = cache["extra_dimensions"]
    return cache["rule"] + (f", {extra} numbers more" if extra else "")


def _rule(profile: Mapping[str, Any]) -> str:
    scaling = "" if profile["rope_type"] == "default" else f", {profile['rope_type']}"
    factor = f" x {profile['factor']:g}" if profile.get("factor") else ""
    return f"base {profile['base']:,.10g}{scaling}{factor}"


def _query_scale(scale: Mapping[str, Any] | None) -> str:
    if scale is None:
        return _NOTHING
    place = f"(p + {scale['first']})" if scale["first"] else "p"
    return f"1 + {scale['strength']:g} ln(1 + ⌊{place} / {scale['floor']:g}⌋)"


def _columns(rows: Sequence[Sequence[str]]) -> list[str]:
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return ["  ".join(map(str.ljust, row, widths)).rstrip() for row in rows]
