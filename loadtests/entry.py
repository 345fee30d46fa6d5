"""How a measurement is started: so that it can be interrupted from the first moment on."""

import os
import signal
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from importlib import import_module

from server.interruption import interruptible

INTERRUPTED = 130
"""The exit status after Ctrl-C or SIGTERM, as a shell has it."""


def run(module: str, arguments: Sequence[str]) -> int:
    """`main` of a module, which is imported only here, since PyTorch takes its time; the exit status.

    `main` handles an interruption itself once there is something to keep.
    """
    with _abandoning(module):
        imported = import_module(module)
    with interruptible():
        try:
            status: int = imported.main(arguments)
        except KeyboardInterrupt:
            _tell(module)
            return INTERRUPTED
        return status


@contextmanager
def _abandoning(module: str) -> Iterator[None]:
    """Let a signal end the process at once: what is half imported goes on, or fails, after an exception."""

    def end(*_: object) -> None:
        _tell(module)
        os._exit(INTERRUPTED)

    before = {number: signal.signal(number, end) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _tell(module: str) -> None:
    print(f"{module.removesuffix('.command')}: interrupted.", file=sys.stderr, flush=True)
