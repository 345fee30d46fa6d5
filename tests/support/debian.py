"""A package of Debian, unpacked without installing it."""

import os
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory


def unpack(package: str, inside: str, folder: Path) -> bool:
    """Make `folder` what lies `inside` a package, e.g. `usr/bin`; False where apt has none of that name.

    Nothing is installed: no service starts, nobody has to be root.
    """
    if not all(map(shutil.which, ("apt-get", "dpkg-deb"))):
        return False
    folder.parent.mkdir(parents=True, exist_ok=True)
    with TemporaryDirectory(dir=folder.parent) as place:
        own = _own_lists(Path(place))
        if not _download(package, place) and not (
            _run(["apt-get", *own, "update"], place) and _download(package, place, own)
        ):
            return False
        file = next(Path(place).glob(f"{package}_*.deb"))
        if not _run(["dpkg-deb", "--extract", str(file), "files"], place):
            return False
        shutil.rmtree(folder, ignore_errors=True)
        os.replace(Path(place, "files", inside), folder)
    return True


def _own_lists(place: Path) -> list[str]:
    """Options under which apt's lists lie in a folder: the system's may be empty, and are root's."""
    for name in ("lists/partial", "cache/archives/partial"):
        (place / name).mkdir(parents=True)
    settings = (f"Dir::State::Lists={place}/lists", f"Dir::Cache={place}/cache", "APT::Sandbox::User=")
    return [part for setting in settings for part in ("-o", setting)]


def _download(package: str, place: str, options: Sequence[str] = ()) -> bool:
    return _run(["apt-get", *options, "download", package], place)


def _run(command: list[str], folder: str) -> bool:
    done = subprocess.run(command, cwd=folder, capture_output=True, stdin=subprocess.DEVNULL, timeout=300)
    return done.returncode == 0
