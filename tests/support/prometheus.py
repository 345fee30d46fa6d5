"""Prometheus and promtool: those on PATH, else Debian's package, unpacked without installing it."""

import os
import shutil
import subprocess
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory

from server.default_model import default_cache

_PACKAGE = "prometheus"
_TOOLS = ("prometheus", "promtool")


@cache
def tools() -> Path | None:
    """The folder of both programs; None where neither PATH nor apt has them.

    The package is kept in the user's cache. Nothing is installed: no service starts, nobody has to be root.
    """
    found = [path for tool in _TOOLS if (path := shutil.which(tool)) is not None]
    if len(found) == len(_TOOLS):
        return Path(found[0]).parent
    kept = default_cache() / _PACKAGE
    if not all((kept / tool).exists() for tool in _TOOLS) and not _unpack(kept):
        return None
    return kept


def _unpack(folder: Path) -> bool:
    if not all(map(shutil.which, ("apt-get", "dpkg-deb"))):
        return False
    folder.parent.mkdir(parents=True, exist_ok=True)
    with TemporaryDirectory(dir=folder.parent) as place:
        own = _own_lists(Path(place))
        if not _download(place) and not (_run(["apt-get", *own, "update"], place) and _download(place, own)):
            return False
        package = next(Path(place).glob(f"{_PACKAGE}_*.deb"))
        if not _run(["dpkg-deb", "--extract", str(package), "files"], place):
            return False
        shutil.rmtree(folder, ignore_errors=True)
        os.replace(Path(place, "files/usr/bin"), folder)
    return True


def _own_lists(place: Path) -> list[str]:
    """Options under which apt's lists lie in a folder: the system's may be empty, and are root's."""
    for name in ("lists/partial", "cache/archives/partial"):
        (place / name).mkdir(parents=True)
    settings = (f"Dir::State::Lists={place}/lists", f"Dir::Cache={place}/cache", "APT::Sandbox::User=")
    return [part for setting in settings for part in ("-o", setting)]


def _download(place: str, options: Sequence[str] = ()) -> bool:
    return _run(["apt-get", *options, "download", _PACKAGE], place)


def _run(command: list[str], folder: str) -> bool:
    done = subprocess.run(command, cwd=folder, capture_output=True, stdin=subprocess.DEVNULL, timeout=300)
    return done.returncode == 0
