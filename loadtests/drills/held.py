"""The memory that a server's processes hold, sampled while something else happens."""

import time
from collections import Counter
from contextlib import suppress
from pathlib import Path

import psutil

from loadtests.drills.beside import Beside
from loadtests.memory import resident_bytes

SAMPLE_SECONDS = 5.0
# Pages of files (libraries) are left out: their share changes with whatever else this machine runs.
_COUNTED = ("Pss_Anon:", "Pss_Shmem:", "SwapPss:")


def held_bytes(pid: int) -> dict[str, int]:
    """Memory of a process and its children that no file backs, each page that they share counted once.

    By the processes' names. Elsewhere than on Linux all that is resident, under one name.
    """
    parent = psutil.Process(pid)
    if not Path(f"/proc/{pid}/smaps_rollup").exists():
        return {parent.name(): resident_bytes(pid)}
    held: Counter[str] = Counter()
    for process in (parent, *parent.children(recursive=True)):
        with suppress(psutil.NoSuchProcess):
            held[process.name()] += _held(process.pid)
    return dict(held)


def _held(pid: int) -> int:
    with suppress(OSError):  # it has ended meanwhile
        lines = Path(f"/proc/{pid}/smaps_rollup").read_text(encoding="ascii").splitlines()
        return sum(1024 * int(line.split()[1]) for line in lines if line.startswith(_COUNTED))
    return 0


class Held(Beside):
    """Samples until the block ends: `seconds` since its start, and `held_bytes` then."""

    def __init__(self, pid: int) -> None:
        super().__init__()
        self._pid = pid
        self._started = time.monotonic()
        self.seconds: list[float] = []
        self.processes: list[dict[str, int]] = []

    @property
    def bytes(self) -> list[int]:
        """Of all processes together."""
        return [sum(held.values()) for held in self.processes]

    def _work(self) -> None:
        with suppress(psutil.NoSuchProcess):
            while not self.ending.wait(SAMPLE_SECONDS):
                self.processes.append(held_bytes(self._pid))
                self.seconds.append(time.monotonic() - self._started)
