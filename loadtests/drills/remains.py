"""What a dead server leaves behind."""

import os
import time
from dataclasses import dataclass
from pathlib import Path

import psutil

from server.child import Server

_SHARED_MEMORY = Path("/dev/shm")
_LOOK_SECONDS = 0.1


@dataclass(frozen=True, slots=True)
class Traces:
    """The processes of a server, and the segments of shared memory that were there."""

    processes: tuple[psutil.Process, ...]
    before: frozenset[str]

    @staticmethod
    def of(server: Server, before: frozenset[str]) -> "Traces":
        """Of one that runs; `before`: `segments()` of before its start."""
        main = psutil.Process(server.pid)
        return Traces((main, *main.children(recursive=True)), before)

    def seconds_until_gone(self, within: float) -> float | None:
        """Seconds until no process of it is left, None where some are after `within` seconds."""
        started = time.monotonic()
        while any(map(_alive, self.processes)):
            if time.monotonic() - started > within:
                return None
            time.sleep(_LOOK_SECONDS)
        return time.monotonic() - started

    @property
    def left(self) -> list[str]:
        """Segments of shared memory that came since, and are still there."""
        return sorted(segments() - self.before)


def segments() -> frozenset[str]:
    """All segments of shared memory by name."""
    return frozenset(os.listdir(_SHARED_MEMORY)) if _SHARED_MEMORY.is_dir() else frozenset()


def _alive(process: psutil.Process) -> bool:
    try:
        return process.status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False
