"""What a dead server leaves behind."""

import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import psutil

from server.child import Server

_SHARED_MEMORY = Path("/dev/shm")
_LOOK_SECONDS = 0.1


@dataclass(frozen=True, slots=True)
class Traces:
    """The processes of a server that runs, and the shared memory that they have mapped."""

    processes: tuple[psutil.Process, ...]
    segments: frozenset[Path]

    @staticmethod
    def of(server: Server) -> "Traces":
        """As they are now."""
        main = psutil.Process(server.pid)
        processes = (main, *main.children(recursive=True))
        return Traces(processes, frozenset().union(*map(_mapped, processes)))

    def seconds_until_gone(self, within: float) -> float | None:
        """Seconds until no process of it is left, None where some are after `within` seconds."""
        started = time.monotonic()
        while self.alive:
            if time.monotonic() - started > within:
                return None
            time.sleep(_LOOK_SECONDS)
        return time.monotonic() - started

    @property
    def alive(self) -> Sequence[str]:
        """The names of the processes that live on."""
        return [process.name() for process in self.processes if _alive(process)]

    @property
    def left(self) -> Sequence[str]:
        """The names of segments that are still there."""
        return sorted(path.name for path in self.segments if path.exists())


def _mapped(process: psutil.Process) -> frozenset[Path]:
    with suppress(psutil.Error):
        paths = {Path(region.path) for region in process.memory_maps()}
        return frozenset(path for path in paths if path.parent == _SHARED_MEMORY)
    return frozenset()


def _alive(process: psutil.Process) -> bool:
    try:
        return process.status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False
