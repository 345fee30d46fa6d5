"""`python -m loadtests.quality`: see `command`."""

import sys

from loadtests.entry import run

if __name__ == "__main__":
    sys.exit(run("loadtests.quality.command", sys.argv[1:]))
