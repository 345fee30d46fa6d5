"""Installs Ropeway with everything it needs into .venv beside this folder; run by `make install`.

With `--into FOLDER` it installs there what a server needs and nothing more, for images and services.
Runs under the system's Python with nothing installed. Where all is there, `make install` does nothing.
"""

import argparse
import hashlib
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PYTORCH_CPU_INDEX = "https://download.pytorch.org/whl/cpu"
# vLLM's CPU build and xgrammar ask for these and serve text without them; PyPI has them only built for CUDA.
# Beside PyTorch's CPU build the first three break `import transformers`; Triton (1 GB) reports leaks at exit.
CLASHING = ("torchvision", "torchaudio", "torchcodec", "triton")
CLASH_CHECK = """
import importlib.metadata as metadata
for name in {names}:
    try:
        version = metadata.version(name)
    except metadata.PackageNotFoundError:
        continue
    if "+cpu" not in version:
        print(name)
"""


class InstallError(Exception):
    """A step failed; the message says which, and what to do."""


@dataclass(frozen=True)
class Target:
    """A virtual environment, which vLLM goes into it, and whether it is to develop in or to serve from."""

    venv: Path
    extra: str
    develop: bool

    @property
    def python(self) -> Path:
        """The environment's own interpreter."""
        return self.venv / "bin" / "python"

    @property
    def stamp(self) -> Path:
        """The file that says what was installed."""
        return self.venv / "ropeway-installed"

    @property
    def requirement(self) -> list[str]:
        """What pip is asked for: this folder itself, or a copy of its packages."""
        if self.develop:
            return ["--editable", f"{ROOT}[{self.extra},dev]"]
        return [f"{ROOT}[{self.extra}]"]


def main() -> int:
    """Installs what the chosen extra needs, unless the stamp says that it is there."""
    parser = argparse.ArgumentParser(description="Install Ropeway into .venv.")
    parser.add_argument("--extra", choices=("cpu", "cuda"), default="cpu", help="which vLLM (default: cpu)")
    parser.add_argument(
        "--into",
        type=Path,
        metavar="FOLDER",
        help="install there to serve from, independent of this folder and without what tests need",
    )
    given = parser.parse_args()
    venv = ROOT / ".venv" if given.into is None else given.into.absolute()
    target = Target(venv, given.extra, develop=given.into is None)
    wanted = stamp(target)
    # A copy of the packages does not follow their sources, so it is always made anew.
    if (
        target.develop
        and target.python.exists()
        and target.stamp.is_file()
        and target.stamp.read_text() == wanted
    ):
        return 0
    try:
        target.stamp.unlink(missing_ok=True)
        make_environment(target)
        install(target)
        if target.extra == "cpu":
            remove_clashing(target)
        check(target)
    except InstallError as error:
        print(f"\nmake install: {error}", file=sys.stderr)
        return 1
    target.stamp.write_text(wanted)
    print(f"Installed into {shown(target)}.")
    return 0


def shown(target: Target) -> str:
    """The environment as the user knows it."""
    return ".venv" if target.develop else str(target.venv)


def stamp(target: Target) -> str:
    """What the installation depends on, as one digest; the place too, since scripts name it."""
    digest = hashlib.sha256()
    for part in (target.extra, str(ROOT)):
        digest.update(part.encode() + b"\0")
    for file in (ROOT / "pyproject.toml", Path(__file__)):
        digest.update(file.read_bytes())
    return digest.hexdigest() + "\n"


def make_environment(target: Target) -> None:
    """Makes the environment, or keeps the one that is there."""
    if target.python.exists():
        return
    if sys.version_info < (3, 11):
        raise InstallError(
            f"Python 3.11 or newer is needed, {sys.executable} is {sys.version.split()[0]}. Install one and "
            "name it: make install PYTHON=/path/to/python3.11"
        )
    print(f"Making {shown(target)} …")
    if subprocess.run([sys.executable, "-m", "venv", str(target.venv)]).returncode != 0:
        shutil.rmtree(target.venv, ignore_errors=True)
        raise InstallError(
            f"making {shown(target)} failed (see above). On Debian and Ubuntu it needs the package "
            "python3-venv (python3.11-venv); then run it again."
        )


def install(target: Target) -> None:
    """Installs Ropeway; names PyTorch's own index only where the user's has no CPU build of it."""
    extras = f"{target.extra},dev" if target.develop else target.extra
    print(f"Installing ropeway[{extras}] (about 3.5 GB, minutes) …", flush=True)
    command = [str(target.python), "-m", "pip", "install", "--disable-pip-version-check", "--prefer-binary"]
    failed, output = run_shown([*command, *target.requirement])
    if failed and target.extra == "cpu" and "torch==" in output:
        print(
            f"\nThe package index has no CPU build of PyTorch; trying again with {PYTORCH_CPU_INDEX} …",
            flush=True,
        )
        failed, output = run_shown([*command, "--extra-index-url", PYTORCH_CPU_INDEX, *target.requirement])
    if failed and "torch==" in output:
        raise InstallError(
            "no index offered the CPU build of PyTorch that vLLM needs (see above). This machine must reach "
            f"{PYTORCH_CPU_INDEX}, or an index that has it (PIP_EXTRA_INDEX_URL, PIP_FIND_LINKS)."
        )
    if failed:
        raise InstallError(
            "`pip install` failed (its last lines are above). Check the network (proxy: HTTPS_PROXY, index: "
            "PIP_INDEX_URL) and the free disk space (5 GB), then run it again: what was downloaded is kept."
        )


def run_shown(command: list[str]) -> tuple[bool, str]:
    """Runs a command, shows its output as it comes; returns whether it failed, and the output."""
    lines = []
    with subprocess.Popen(
        command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    ) as process:
        assert process.stdout is not None
        for line in process.stdout:
            lines.append(line)
            if not line.startswith("Requirement already satisfied"):
                print(line, end="", flush=True)
    return process.returncode != 0, "".join(lines)


def remove_clashing(target: Target) -> None:
    """Removes the CUDA builds that came along with vLLM's CPU build."""
    found = subprocess.run(
        [str(target.python), "-c", CLASH_CHECK.format(names=CLASHING)],
        capture_output=True,
        text=True,
        check=True,
    ).stdout.split()
    if found:
        print(f"Removing {', '.join(found)}: built for CUDA, and text models do not need them.", flush=True)
        subprocess.run([str(target.python), "-m", "pip", "uninstall", "--quiet", "--yes", *found], check=True)


def check(target: Target) -> None:
    """Imports what a server needs, so that a broken installation is known now."""
    print("Checking …", flush=True)
    result = subprocess.run(
        [str(target.python), "-c", "import torch, transformers.modeling_utils, vllm.version, server.command"],
        cwd=target.venv,  # not where the packages lie beside the caller
        capture_output=True,
        text=True,
    )
    if result.returncode != 0:
        print(result.stderr, file=sys.stderr)
        raise InstallError(
            f"what was installed cannot be imported (see above). Remove {shown(target)} and run it again."
        )


if __name__ == "__main__":
    sys.exit(main())
