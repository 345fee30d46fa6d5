"""A wall clock that jumps for one server alone, by Debian's libfaketime."""

import os
from pathlib import Path

from server.default_model import default_cache
from tests.support import debian

_PACKAGE, _NAME = "libfaketime", "libfaketimeMT.so.1"


def library() -> Path | None:
    """The library that fakes clocks, kept in the user's cache; None where apt has none."""
    kept = default_cache() / _PACKAGE
    if not _found(kept) and not debian.unpack(_PACKAGE, "usr/lib", kept):
        return None
    return _found(kept)


def _found(folder: Path) -> Path | None:
    return next(folder.glob(f"**/{_NAME}"), None)


class FakedClock:
    """The wall clock of a server started with `env`; the monotonic one goes on, as when NTP steps."""

    def __init__(self, preload: Path, folder: Path) -> None:
        self._file = folder / "offset"
        self.jump(0)
        self.env = {
            "LD_PRELOAD": str(preload),
            "FAKETIME_TIMESTAMP_FILE": str(self._file),
            "FAKETIME_NO_CACHE": "1",
            "DONT_FAKE_MONOTONIC": "1",
            "FAKETIME_DONT_FAKE_MONOTONIC": "1",
        }

    def jump(self, seconds: int) -> None:
        """Let it be so many seconds ahead of the true time from now on."""
        partial = self._file.with_suffix(".partial")
        partial.write_text(f"{seconds:+d}\n", encoding="ascii")
        os.replace(partial, self._file)
