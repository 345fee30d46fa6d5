"""The command line."""

import argparse
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from loadtests.arguments import amount, count
from loadtests.drills.file import REPORTED
from loadtests.drills.registry import DRILLS, SOAK


@dataclass(frozen=True, slots=True)
class Options:
    """Which drills, of what, how long, and where the JSON goes; `model` None: a tiny one."""

    names: tuple[str, ...]
    model: str | None
    minutes: float
    disconnects: int
    out: Path | None

    @staticmethod
    def parse(arguments: Sequence[str]) -> "Options":
        """Read a command line."""
        args = _parser().parse_args(arguments)
        quick = tuple(name for name in DRILLS if name != SOAK)
        return Options(tuple(args.only or quick), args.model, args.minutes, args.disconnects, args.out)

    @property
    def sizes(self) -> dict[str, float]:
        """How much of what each drill does."""
        return {"minutes": self.minutes, "disconnects": self.disconnects, "full_requests": 48}


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m loadtests.drills",
        description="Break servers on purpose and see what survives. Each drill starts its own.",
    )
    parser.add_argument(
        "--only",
        action="append",
        choices=list(DRILLS),
        help=f"this one; may be repeated (default: all but {SOAK})",
    )
    parser.add_argument("--model", help="a model to serve (default: a tiny Llama of random weights)")
    parser.add_argument("--minutes", type=amount, default=30.0, help=f"of {SOAK} (default: 30)")
    parser.add_argument("--disconnects", type=count, default=500, help="how many (default: 500)")
    parser.add_argument(
        "--out",
        type=Path,
        nargs="?",
        const=REPORTED,
        metavar="FILE",
        help=f"keep what was found, beside what other runs found, as JSON (without FILE: {REPORTED})",
    )
    return parser
