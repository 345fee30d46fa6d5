"""`python -m loadtests.bench`: see `side_by_side`."""

import sys

from loadtests.entry import run

if __name__ == "__main__":
    sys.exit(run("loadtests.side_by_side", sys.argv[1:]))
