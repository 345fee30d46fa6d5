"""`python -m loadtests.fuzz`: examples from the OpenAPI document to a tiny server, and what stock does."""

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

from loadtests.fuzz.comparison import compare
from loadtests.fuzz.report import Report
from loadtests.fuzz.session import Session
from loadtests.fuzz.subject import ADMIN, answers, checkpoint, serving

REPORTED = Path("docs/results/fuzz.json")


def measure(examples: int, seed: int) -> Report:
    """Send the examples to ours, then what failed to stock vLLM: one server after the other."""
    with TemporaryDirectory(prefix="ropeway-fuzz-") as folder:
        model = checkpoint(Path(folder))
        with serving(model, stock=False) as server:
            before = answers(server)
            session = Session(server, ADMIN, seed)
            session.run(examples)
            served = server.get("/openapi.json").json()
            calm = answers(server) == before
        with serving(model, stock=True) as stock:
            return Report(session, compare(session.found, session, served, stock), calm)


def main(arguments: Sequence[str]) -> int:
    """Print what was found; 0 where stock vLLM shows every fault too, and the server is as before."""
    parser = argparse.ArgumentParser(prog="python -m loadtests.fuzz", description=__doc__)
    parser.add_argument("--examples", type=int, default=5000, help="how many (default: %(default)s)")
    parser.add_argument("--seed", type=int, default=0, help="of the examples (default: %(default)s)")
    parser.add_argument("--out", type=Path, help=f"a file for the figures, such as {REPORTED}")
    options = parser.parse_args(arguments)
    report = measure(options.examples, options.seed)
    report.print()
    if options.out is not None:
        report.write(options.out)
    return 0 if report.good else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
