"""`python -m loadtests.load --url URL`: see `command`."""

import sys

from loadtests.entry import run

if __name__ == "__main__":
    sys.exit(run("loadtests.load.command", sys.argv[1:]))
