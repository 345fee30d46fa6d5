"""The command line of `ropeway tune`."""

import argparse
from pathlib import Path

MOST_MINUTES = 60
DESCRIPTION = """\
Searches the settings of QGPM that add most to the log-probability of answers with gold evidence, less what
the heads of the model's head profile lose, on samples that come with the package, and writes them as the
profile's defaults. The defaults stay unless others are better on samples that were held out. At the end it
calibrates the guard, and finds by which sources requests that do not say are ranked best. A server of the
model runs meanwhile."""


def add_options(parser: argparse.ArgumentParser) -> None:
    """Adds what `ropeway tune` takes."""
    parser.add_argument(
        "model", metavar="MODEL", help="a model folder, or the name of one that vLLM can load"
    )
    parser.add_argument("--out", type=Path, required=True, metavar="FILE", help="the head profile to write")
    parser.add_argument(
        "--head-profile",
        type=Path,
        metavar="FILE",
        help="the head profile to start from (default: the model's own, as `ropeway serve` finds it)",
    )
    parser.add_argument(
        "--minutes",
        type=_minutes,
        default=MOST_MINUTES,
        help="how long it may take (default, and most: %(default)s)",
    )
    parser.add_argument(
        "--seed", type=int, default=0, help="what samples and candidates are drawn by (default: %(default)s)"
    )
    parser.add_argument(
        "--guard-only",
        action="store_true",
        help="keep the settings; calibrate the guard and find the default sources alone",
    )


def _minutes(text: str) -> float:
    value = float(text)
    if not 0 < value <= MOST_MINUTES:
        raise argparse.ArgumentTypeError(f"{text} is not above 0 and at most {MOST_MINUTES}")
    return value
