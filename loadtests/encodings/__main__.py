"""`python -m loadtests.encodings`: write docs/encodings.md and its plots."""

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from loadtests.encodings.figures import FOLDER
from loadtests.encodings.page import COMMAND, pages
from loadtests.pages import Pages

DOCS = Path("docs")


def main(arguments: Sequence[str]) -> int:
    """Writes, or with `--check` compares; 1 where the page is not up to date."""
    options = _parser().parse_args(arguments)
    place = Pages(options.docs, FOLDER, COMMAND)
    made = pages(options.docs)
    return place.check(made) if options.check else place.write(made)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m loadtests.encodings",
        description="Write DOCS/encodings.md and its plots from what the encodings say of themselves.",
    )
    parser.add_argument("--docs", type=Path, default=DOCS, help=f"the folder (default: {DOCS})")
    parser.add_argument(
        "--check", action="store_true", help="write nothing; the status is 1 if the page is out of date"
    )
    return parser


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
