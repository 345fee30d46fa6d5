"""A wall clock that jumps for one server alone, by libfaketime."""

import os
import subprocess
import sys
from functools import cache
from pathlib import Path

from server.default_model import default_cache
from tests.support import debian

_PACKAGE = "libfaketime"
_WHEEL = "libfaketime==3.0.1"
_NAMES = ("libfaketimeMT.so.1", "libfaketime.so.1")
# Python 3.11 sleeps until a time of the monotonic clock, which libfaketime 0.9.10 (Debian 12) breaks.
_TRIAL = "import time; time.sleep(0.001)"


@cache
def library() -> Path | None:
    """A library that fakes clocks and lets Python sleep, kept in the user's cache; None where none is had.

    Debian's, or else that of the package index, which pip may have to compile.
    """
    for folder, fetch in (("libfaketime", _from_debian), ("libfaketime-wheel", _from_index)):
        kept = default_cache() / folder
        found = _found(kept) or (_found(kept) if fetch(kept) else None)
        if found is not None and _works(found):
            return found
    return None


def _from_debian(folder: Path) -> bool:
    return debian.unpack(_PACKAGE, "usr/lib", folder)


def _from_index(folder: Path) -> bool:
    pip = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--target", str(folder), _WHEEL]
    return subprocess.run(pip, capture_output=True, stdin=subprocess.DEVNULL).returncode == 0


def _found(folder: Path) -> Path | None:
    return next((path for name in _NAMES for path in folder.glob(f"**/{name}")), None)


def _works(library: Path) -> bool:
    env = {**os.environ, **_environment(library), "FAKETIME": "+0"}
    return subprocess.run([sys.executable, "-c", _TRIAL], env=env, capture_output=True).returncode == 0


def _environment(library: Path) -> dict[str, str]:
    return {
        "LD_PRELOAD": str(library),
        "DONT_FAKE_MONOTONIC": "1",
        "FAKETIME_DONT_FAKE_MONOTONIC": "1",
        "FAKETIME_NO_CACHE": "1",
        "FAKETIME_DISABLE_SHM": "1",
    }


class FakedClock:
    """The wall clock of a server started with `env`; the monotonic one goes on, as when NTP steps."""

    def __init__(self, preload: Path, folder: Path) -> None:
        self._file = folder / "offset"
        self.jump(0)
        self.env = {**_environment(preload), "FAKETIME_TIMESTAMP_FILE": str(self._file)}

    def jump(self, seconds: int) -> None:
        """Let it be so many seconds ahead of the true time from now on."""
        partial = self._file.with_suffix(".partial")
        partial.write_text(f"{seconds:+d}\n", encoding="ascii")
        os.replace(partial, self._file)
