"""A disk with little room, seen by chosen commands alone."""

import subprocess
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

_MADE_SECONDS = 10.0


class NoSmallDiskError(RuntimeError):
    """This user may not mount one."""


@dataclass(frozen=True, slots=True)
class SmallDisk:
    """A tmpfs mounted at `path` for the commands that begin with `enter`; `seen`: it, from outside."""

    path: Path
    enter: tuple[str, ...]
    seen: Path

    def resize(self, megabytes: int) -> None:
        """Give it more room, or less."""
        mount = [*self.enter, "mount", "-o", f"remount,size={megabytes}m", str(self.path)]
        subprocess.run(mount, check=True, capture_output=True)

    def run(
        self, command: Sequence[str], env: dict[str, str], seconds: float
    ) -> "subprocess.CompletedProcess[str]":
        """A command that sees the disk, to its end."""
        return subprocess.run(
            [*self.enter, *command], env=env, capture_output=True, text=True, timeout=seconds
        )

    @property
    def files(self) -> list[str]:
        """Every file on it."""
        return sorted(str(path.relative_to(self.seen)) for path in self.seen.rglob("*") if path.is_file())


@contextmanager
def small_disk(path: Path, megabytes: int) -> Iterator[SmallDisk]:
    """Mount one over the empty folder `path` in a namespace of its own; raises NoSmallDiskError."""
    ready = path / "not-mounted"
    ready.touch()
    script = f"mount -t tmpfs -o size={megabytes}m tmpfs {path} && exec sleep infinity"
    holder = subprocess.Popen(
        ["unshare", "--user", "--map-root-user", "--mount", "sh", "-c", script],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        seen = Path(f"/proc/{holder.pid}/root{path}")
        deadline = time.monotonic() + _MADE_SECONDS
        while holder.poll() is None and (seen / ready.name).exists() and time.monotonic() < deadline:
            time.sleep(0.05)
        if holder.poll() is not None or (seen / ready.name).exists():
            raise NoSmallDiskError("no small disk can be mounted here: it needs user namespaces")
        enter = ("nsenter", "--target", str(holder.pid), "--user", "--mount", "--preserve-credentials")
        yield SmallDisk(path, enter, seen)
    finally:
        holder.kill()
        holder.wait()
