"""`python -m loadtests.results`: write the report from the files that the measurements left."""

import argparse
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

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
    except (ObservationError, ResultFileError, OSError) as error:
        print(error, file=sys.stderr)
        return 1
    return _check(docs, made) if options.check else _write(docs, made)


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


def _write(docs: Path, made: Mapping[str, str]) -> int:
    (docs / FOLDER).mkdir(parents=True, exist_ok=True)
    for stale in _stale_plots(docs, made):
        stale.unlink()
    for name, text in made.items():
        (docs / name).write_text(text, encoding="utf-8")
    print(f"{docs / next(iter(made))}, and {len(made) - 1} plots")
    return 0


def _check(docs: Path, made: Mapping[str, str]) -> int:
    different = [
        name
        for name, text in made.items()
        if not (docs / name).is_file() or (docs / name).read_text(encoding="utf-8") != text
    ]
    different += [str(path.relative_to(docs)) for path in _stale_plots(docs, made)]
    for name in different:
        print(f"{docs / name} is out of date: make results", file=sys.stderr)
    return 1 if different else 0


def _stale_plots(docs: Path, made: Mapping[str, str]) -> list[Path]:
    """Plots of an earlier report that this one does not show."""
    return [path for path in sorted((docs / FOLDER).glob("*.svg")) if f"{FOLDER}/{path.name}" not in made]


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
