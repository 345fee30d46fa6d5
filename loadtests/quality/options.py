"""The command line of `python -m loadtests.quality`."""

import argparse
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from loadtests import arguments as values
from loadtests.quality.methods import SERVED, SOURCES
from loadtests.quality.warping import BASELINES

DESCRIPTION = """\
Measures whether QGPM answers better: serves a model, asks it about samples whose answers are known, plainly
and by every other method, and ends with a table. Interrupted, it keeps what it has, and the same command
goes on."""


@dataclass(frozen=True, slots=True)
class Options:
    """What to measure; `out` None: a file named by the setting."""

    model: str | None
    minutes: float
    full: bool
    methods: tuple[str, ...] | None
    seed: int
    samples_per_cell: int | None
    dataset: Path | None
    head_profile: Path | None
    dtype: str
    at_once: int
    flags: tuple[str, ...]
    out: Path | None

    @staticmethod
    def parse(arguments: Sequence[str]) -> "Options":
        """Read a command line."""
        args = _parser().parse_args(arguments)
        return Options(
            model=args.model,
            minutes=args.minutes,
            full=args.full,
            methods=args.methods,
            seed=args.seed,
            samples_per_cell=args.samples_per_cell,
            dataset=args.dataset,
            head_profile=args.head_profile,
            dtype=args.dtype,
            at_once=args.at_once,
            flags=args.serve_flags,
            out=args.out,
        )


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m loadtests.quality", description=DESCRIPTION)
    parser.add_argument("--model", help="a model folder or hub name (default: the default model)")
    parser.add_argument(
        "--minutes",
        type=values.amount,
        default=90.0,
        help="how long to ask, start-up aside (default: %(default)g)",
    )
    parser.add_argument(
        "--full", action="store_true", help="every method at every length, up to the model's window"
    )
    parser.add_argument(
        "--methods",
        type=_methods,
        metavar="NAME,…",
        help="ask only these, and plain, at every length; beside the usual ones: "
        f"{', '.join(SOURCES)} (default: the usual ones)",
    )
    parser.add_argument(
        "--seed", type=int, default=0, help="what the samples are drawn by (default: %(default)s)"
    )
    parser.add_argument(
        "--samples-per-cell",
        type=values.count,
        metavar="N",
        help="stop at so many (default: when time is over)",
    )
    parser.add_argument(
        "--dataset", type=Path, metavar="FILE", help="samples in RULER's or NoLiMa's format, in place of ours"
    )
    parser.add_argument(
        "--head-profile", type=Path, metavar="FILE", help="as of `ropeway serve` (default: as found there)"
    )
    # On two cores a run waits for the engine's one thread, which float32 costs several times as much.
    parser.add_argument("--dtype", default="bfloat16", help="of weights and cache (default: %(default)s)")
    # Seconds of that thread for 50 observations at 500 and 2,000 tokens: 104 one at a time, 83 by 4, 76 by 8.
    parser.add_argument(
        "--at-once",
        type=values.count,
        default=8,
        metavar="N",
        help="samples asked at once (default: %(default)s)",
    )
    parser.add_argument(
        "--serve-flags", type=values.flags, default="", metavar="FLAGS", help="more flags of `ropeway serve`"
    )
    parser.add_argument(
        "--out",
        type=Path,
        metavar="FILE",
        help="the result file (default: one of the setting's own in measured/)",
    )
    return parser


def _methods(text: str) -> tuple[str, ...]:
    names = tuple(text.split(","))
    for name in names:
        if name not in SERVED and name not in BASELINES:
            raise argparse.ArgumentTypeError(f"{name!r} is none of {', '.join((*SERVED, *BASELINES))}")
    return names
