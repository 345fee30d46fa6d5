"""Installs Ropeway with everything it needs into .venv beside this folder; run by `make install`.

Runs under the system's Python with nothing installed. A second run finds its stamp and does nothing.
"""

import argparse
import hashlib
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
VENV = ROOT / ".venv"
PYTHON = VENV / "bin" / "python"
STAMP = VENV / "ropeway-installed"
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


def main() -> int:
    """Installs what the chosen extra needs, unless the stamp says that it is there."""
    parser = argparse.ArgumentParser(description="Install Ropeway into .venv.")
    parser.add_argument("--extra", choices=("cpu", "cuda"), default="cpu", help="which vLLM (default: cpu)")
    extra = parser.parse_args().extra
    wanted = stamp(extra)
    if PYTHON.exists() and STAMP.is_file() and STAMP.read_text() == wanted:
        return 0
    try:
        STAMP.unlink(missing_ok=True)
        make_environment()
        install(extra)
        if extra == "cpu":
            remove_clashing()
        check()
    except InstallError as error:
        print(f"\nmake install: {error}", file=sys.stderr)
        return 1
    STAMP.write_text(wanted)
    print("Installed into .venv.")
    return 0


def stamp(extra: str) -> str:
    """What the installation depends on, as one digest; the place too, since scripts name it."""
    digest = hashlib.sha256()
    for part in (extra, str(ROOT)):
        digest.update(part.encode() + b"\0")
    for file in (ROOT / "pyproject.toml", Path(__file__)):
        digest.update(file.read_bytes())
    return digest.hexdigest() + "\n"


def make_environment() -> None:
    """Makes .venv, or keeps the one that is there."""
    if PYTHON.exists():
        return
    if sys.version_info < (3, 11):
        raise InstallError(
            f"Python 3.11 or newer is needed, {sys.executable} is {sys.version.split()[0]}. Install one and "
            "name it: make install PYTHON=/path/to/python3.11"
        )
    print("Making .venv …")
    if subprocess.run([sys.executable, "-m", "venv", str(VENV)]).returncode != 0:
        shutil.rmtree(VENV, ignore_errors=True)
        raise InstallError(
            "making .venv failed (see above). On Debian and Ubuntu it needs the package python3-venv "
            "(python3.11-venv); then run it again."
        )


def install(extra: str) -> None:
    """Installs Ropeway, editable; names PyTorch's own index only where the user's has no CPU build of it."""
    print(f"Installing ropeway[{extra},dev] (about 3.5 GB, minutes) …", flush=True)
    command = [str(PYTHON), "-m", "pip", "install", "--disable-pip-version-check", "--prefer-binary"]
    target = ["--editable", f"{ROOT}[{extra},dev]"]
    failed, output = run_shown([*command, *target])
    if failed and extra == "cpu" and "torch==" in output:
        print(
            f"\nThe package index has no CPU build of PyTorch; trying again with {PYTORCH_CPU_INDEX} …",
            flush=True,
        )
        failed, output = run_shown([*command, "--extra-index-url", PYTORCH_CPU_INDEX, *target])
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


def remove_clashing() -> None:
    """Removes the CUDA builds that came along with vLLM's CPU build."""
    found = subprocess.run(
        [str(PYTHON), "-c", CLASH_CHECK.format(names=CLASHING)], capture_output=True, text=True, check=True
    ).stdout.split()
    if found:
        print(f"Removing {', '.join(found)}: built for CUDA, and text models do not need them.", flush=True)
        subprocess.run([str(PYTHON), "-m", "pip", "uninstall", "--quiet", "--yes", *found], check=True)


def check() -> None:
    """Imports what a server needs, so that a broken installation is known now."""
    print("Checking …", flush=True)
    result = subprocess.run(
        [str(PYTHON), "-c", "import torch, transformers.modeling_utils, vllm.version, server.command"],
        cwd=ROOT,
        capture_output=True,
        text=True,
    )
    if result.returncode != 0:
        print(result.stderr, file=sys.stderr)
        raise InstallError(
            "what was installed cannot be imported (see above). Remove .venv and run it again."
        )


if __name__ == "__main__":
    sys.exit(main())
