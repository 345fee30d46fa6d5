"""The command line of `ropeway plan`: that of `serve`, and what is to be printed."""

import argparse
from collections.abc import Sequence

DESCRIPTION = """\
Prints what every layer of a model does (rotation, span, map, query scale) and what requests take of the
cache, without serving: the model is built with made-up weights and measured. Every flag of `ropeway serve` is
passed on, since many decide the cache. MODEL, where given, comes first; without it, the default model's plan
is printed."""
WITHOUT_WEIGHTS = ("--load-format", "dummy", "--enforce-eager")
"""Flags of `serve` under which a model is there at once; they change nothing of its plan."""


def parser() -> argparse.ArgumentParser:
    """The parser of what is not passed on."""
    made = argparse.ArgumentParser(
        prog="ropeway plan",
        usage="ropeway plan [MODEL] [--json] [--lengths N,N,...] [flags of serve]",
        description=DESCRIPTION,
        allow_abbrev=False,
    )
    made.add_argument("--json", action="store_true", help="print JSON instead of a table")
    made.add_argument(
        "--lengths",
        type=_lengths,
        default=(),
        metavar="N,N,...",
        help="tokens of the requests whose share of the cache is told (default: 1024, 4096, ... up to the "
        "model's length)",
    )
    return made


def take(arguments: Sequence[str]) -> tuple[argparse.Namespace, list[str]]:
    """Our own options, and the arguments that are left for `serve`."""
    options, rest = parser().parse_known_args(list(arguments))
    return options, [*rest, *WITHOUT_WEIGHTS]


def _lengths(text: str) -> tuple[int, ...]:
    parts = text.split(",")
    if not all(part.isdecimal() and int(part) for part in parts):
        raise argparse.ArgumentTypeError(f"{text!r} is not numbers of tokens, joined by commas")
    return tuple(map(int, parts))
