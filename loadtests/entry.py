"""How a measurement is started: so that it can be interrupted from the first moment on."""

import sys
from collections.abc import Sequence
from importlib import import_module

from server.interruption import interruptible

INTERRUPTED = 130
"""The exit status after Ctrl-C or SIGTERM, as a shell has it."""


def run(module: str, arguments: Sequence[str]) -> int:
    """`main` of a module, which is imported only here, since PyTorch takes its time; the exit status.

    `main` handles an interruption itself once there is something to keep.
    """
    with interruptible():
        try:
            status: int = import_module(module).main(arguments)
        except KeyboardInterrupt:
            print(f"{module.removesuffix('.command')}: interrupted.", file=sys.stderr)
            return INTERRUPTED
        return status
