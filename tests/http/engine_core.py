"""The engine core of a live server, held still while something else happens."""

import signal
from collections.abc import Iterator
from contextlib import contextmanager

import psutil

from server.child import Server


def core_of(server: Server) -> psutil.Process:
    """The process of a server's engine core."""
    children = psutil.Process(server.pid).children(recursive=True)
    (core,) = (child for child in children if "EngineCore" in " ".join([child.name(), *child.cmdline()]))
    return core


@contextmanager
def stopped(core: psutil.Process) -> Iterator[None]:
    """Let a process do nothing until the block ends."""
    core.send_signal(signal.SIGSTOP)
    try:
        yield
    finally:
        core.send_signal(signal.SIGCONT)
