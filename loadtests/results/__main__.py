"""`python -m loadtests.results`: write the report from the files that the measurements left."""

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from loadtests.pages import Pages
from loadtests.quality.observations import ObservationError
from loadtests.results.files import ResultFileError, read
from loadtests.results.report import report
from loadtests.results.section import FOLDER

DOCS = Path("docs")


def main(arguments: Sequence[str]) -> int:
    """Writes, or with `--check` compares; 1 where a file cannot be read or the report is not up to date."""
    options = _parser().parse_args(arguments)
    docs: Path = options.docs
    try:
        made = report(read(docs / FOLDER))
        pages = Pages(docs, FOLDER, "make results")
        return pages.check(made) if options.check else pages.write(made)
    except (ObservationError, ResultFileError, OSError) as error:
        print(error, file=sys.stderr)
        return 1


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m loadtests.results",
        description="Write DOCS/results.md and its plots from what lies in DOCS/results: quality.jsonl, "
        "bench.json and load.json. What is missing is said in the report, with the command that makes it.",
    )
    parser.add_argument("--docs", type=Path, default=DOCS, help=f"the folder (default: {DOCS})")
    parser.add_argument(
        "--check", action="store_true", help="write nothing; the status is 1 if the report is out of date"
    )
    return parser


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
