"""The disk of the model cache is full: while the default model is made, and under a server that runs."""

import errno
import os
import sys
from collections.abc import Mapping
from pathlib import Path
from tempfile import TemporaryDirectory

import httpx

from loadtests.drills.ask import pool, tokens_per_sentence
from loadtests.drills.check import Drill, Findings, NotRunError, Say
from loadtests.drills.crowd import Crowd
from loadtests.drills.expected import Expected
from loadtests.drills.outcomes import check_same, check_survival
from loadtests.drills.plans import mixed
from loadtests.drills.small_disk import NoSmallDiskError, SmallDisk, small_disk
from loadtests.drills.snapshot import Snapshot
from loadtests.drills.subject import Subject
from loadtests.drills.watch import Watch
from server.default_model import NAME

_MEGABYTES = (40, 180, 330)
"""With which fetching, unpacking and converting the default model are what fails."""

_ENOUGH = 1024
_TIGHT = 16
_AT_ONCE = 4
_ASKED = 16
_FETCH_SECONDS = 600.0


def run(subject: Subject, sizes: Mapping[str, float], say: Say) -> Findings:
    """A small file system that really is full."""
    findings = Findings()
    with TemporaryDirectory() as folder:
        path = Path(folder).resolve() / "cache"
        path.mkdir()
        try:
            with small_disk(path, _TIGHT) as disk:
                _serve(findings, subject, disk, say)
                _make(findings, disk, say)
        except NoSmallDiskError as error:
            raise NotRunError(str(error)) from error
    return findings


def _serve(findings: Findings, subject: Subject, disk: SmallDisk, say: Say) -> None:
    """A server whose every cache lies on the full disk, and whose model lies elsewhere."""
    say("a server on a full disk")
    _fill(disk)
    command = [*disk.enter, sys.executable, "-m", "server.command", "serve"]
    with (
        subject.serve(env=_caches(disk), command=command) as server,
        httpx.Client(base_url=server.url, timeout=300) as client,
    ):
        findings.check("a server starts with a full cache disk", _full(disk), "the disk is still full")
        asks = pool(tokens_per_sentence(client), _ASKED, seed=9)
        expected = Expected.of(client, asks, subject.near)
        before = Snapshot.read(client)
        with (
            Watch(server.url) as watch,
            Crowd(server.url, mixed(asks, seed=10), expected, _AT_ONCE) as crowd,
        ):
            crowd.wait_for(2 * _ASKED)
        check_survival(findings, client, before, crowd.attempts, watch)
        check_same(findings, expected.again(client, asks))
    (disk.seen / "filler").unlink()


def _make(findings: Findings, disk: SmallDisk, say: Say) -> None:
    """The default model, made where the disk fills up at each step, and then where it does not."""
    command = [sys.executable, "-m", "server.command", "model"]
    for megabytes in _MEGABYTES:
        say(f"the default model with {megabytes} MB")
        disk.resize(megabytes)
        done = disk.run(command, {**os.environ, "ROPEWAY_CACHE": str(disk.path)}, _FETCH_SECONDS)
        said = _told(disk, done.stderr).rpartition("ropeway: ")[2]  # behind bars of progress
        findings.figures[f"what is told with {megabytes} MB"] = " ".join(said.split())[-400:]
        findings.check(
            f"the default model with {megabytes} MB: it fails, says so, and leaves nothing behind",
            done.returncode != 0
            and "default model" in done.stderr
            and "Traceback" not in done.stderr
            and not _leftovers(disk),
            f"status {done.returncode}; left: {', '.join(_leftovers(disk)) or 'nothing'}",
        )
    say("the default model with room")
    disk.resize(_ENOUGH)
    done = disk.run(command, {**os.environ, "ROPEWAY_CACHE": str(disk.path)}, _FETCH_SECONDS)
    findings.check(
        "with room again, the same command makes the model",
        done.returncode == 0 and NAME in done.stdout,
        _told(disk, done.stdout)[-80:] or _told(disk, done.stderr)[-200:],
    )


def _told(disk: SmallDisk, output: str) -> str:
    """What was printed; the folder has another name in every run."""
    return output.strip().replace(str(disk.path), "CACHE")


def _leftovers(disk: SmallDisk) -> list[str]:
    return [name for name in disk.files if name.startswith("models/") and not name.endswith(".lock")]


def _caches(disk: SmallDisk) -> dict[str, str]:
    names = ("ROPEWAY_CACHE", "VLLM_CACHE_ROOT", "XDG_CACHE_HOME", "TORCHINDUCTOR_CACHE_DIR", "HF_HOME")
    return {name: str(disk.path / name.lower()) for name in names}


def _fill(disk: SmallDisk) -> None:
    """Write until the disk takes no byte more."""
    with (disk.seen / "filler").open("wb", buffering=0) as file:
        try:
            while True:
                file.write(bytes(1 << 16))
        except OSError as error:
            if error.errno != errno.ENOSPC:
                raise


def _full(disk: SmallDisk) -> bool:
    return os.statvfs(disk.seen).f_bavail == 0


DRILL = Drill("disk", "the disk of the model cache is full, while it is filled and while a server runs", run)
