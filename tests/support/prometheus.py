"""Prometheus and promtool: those on PATH, else Debian's package, unpacked without installing it."""

import shutil
from functools import cache
from pathlib import Path

from server.default_model import default_cache
from tests.support import debian

_PACKAGE = "prometheus"
_TOOLS = ("prometheus", "promtool")


@cache
def tools() -> Path | None:
    """The folder of both programs; None where neither PATH nor apt has them.

    The package is kept in the user's cache.
    """
    found = [path for tool in _TOOLS if (path := shutil.which(tool)) is not None]
    if len(found) == len(_TOOLS):
        return Path(found[0]).parent
    kept = default_cache() / _PACKAGE
    if not all((kept / tool).exists() for tool in _TOOLS) and not debian.unpack(_PACKAGE, "usr/bin", kept):
        return None
    return kept
