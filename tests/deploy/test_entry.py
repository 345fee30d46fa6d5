"""What the image would run: from an environment of its own, as a user without rights."""

import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import psutil
import pytest

from tests.deploy import dockerfile

pytestmark = [pytest.mark.long, pytest.mark.timeout(3600)]

BODY = {
    "messages": [
        {
            "role": "user",
            "content": "The ferry to Brack leaves at seven. Nadia keeps the keys of the lighthouse. "
            "The harbour freezes in January.\n\nQuestion: When does the ferry leave?",
        }
    ],
    "max_tokens": 8,
    "temperature": 0,
    "qgpm": True,
}
START_SECONDS = 900
# How this machine reaches its package index, which a container would be told likewise.
NETWORK = ("PIP_", "HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY", "SSL_CERT_")


def user() -> int:
    """The number of the user that the image's server runs as."""
    (named,) = dockerfile.of("USER")
    return int(named.split(":")[0])


@dataclass(frozen=True)
class Installed:
    """A folder in place of the image's root: the environment in `opt`, the volume in `cache`."""

    root: Path

    @property
    def cache(self) -> Path:
        return self.root / "cache"

    @property
    def environment(self) -> dict[str, str]:
        image = dockerfile.environment() | {"PATH": f"{self.root}/opt/bin:/usr/bin:/bin"}
        own = {name: value.replace("/cache", str(self.cache), 1) for name, value in image.items()}
        passed = {name: value for name, value in os.environ.items() if name.upper().startswith(NETWORK)}
        return passed | own | {"PATH": image["PATH"]}

    def start(self, command: list[str], log: Path) -> "subprocess.Popen[bytes]":
        """Start a command as the image's user."""
        found = shutil.which(command[0], path=self.environment["PATH"])
        assert found is not None, command[0]
        with log.open("ab") as output:
            return subprocess.Popen(
                [found, *command[1:]],
                cwd=self.cache,
                env=self.environment,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,
                **as_user(),
            )


def as_user() -> dict[str, Any]:
    """Arguments by which a child runs as the image's user; where the tests are not root's, as theirs."""
    if os.geteuid() != 0:
        return {}
    return {"user": user(), "group": user(), "extra_groups": []}


def interpreter() -> Path:
    """A Python that the image's user may run, which one in the home of root is not."""
    for found in (Path(sys.base_prefix, "bin", "python3"), Path("/usr/bin/python3")):
        with suppress(PermissionError):
            command = [found, "-c", "import sys, ensurepip; sys.exit(sys.version_info < (3, 11))"]
            if subprocess.run(command, cwd="/", **as_user()).returncode == 0:
                return found
    raise AssertionError("no Python 3.11 with venv that another user may run: install python3-venv")


@pytest.fixture(scope="module")
def installed() -> Iterator[Installed]:
    """Installed as the Dockerfile does it, from what it copies alone."""
    with tempfile.TemporaryDirectory(prefix="ropeway-image-") as folder:
        root = Path(folder)
        root.chmod(0o755)  # for the other user
        for name in dockerfile.sources():
            copy(dockerfile.ROOT / name, root / "src" / name)
        installer = [interpreter(), root / "src/deploy/install.py", "--extra", "cpu", "--into", root / "opt"]
        subprocess.run(installer, check=True, cwd=root / "src")
        made = Installed(root)
        made.cache.mkdir()
        if os.geteuid() == 0:
            os.chown(made.cache, user(), user())
        yield made


def copy(source: Path, target: Path) -> None:
    target.parent.mkdir(parents=True, exist_ok=True)
    if source.is_dir():
        shutil.copytree(source, target, ignore=shutil.ignore_patterns("__pycache__"))
    else:
        shutil.copy(source, target)


def wait(process: "subprocess.Popen[bytes]", url: str, log: Path) -> None:
    deadline = time.monotonic() + START_SECONDS
    while time.monotonic() < deadline and process.poll() is None:
        with suppress(httpx.TransportError):
            if httpx.get(f"{url}/ready", timeout=5).status_code == 200:
                return
        time.sleep(1)
    raise AssertionError(
        f"not ready, exit status {process.poll()}:\n{log.read_text(errors='replace')[-6000:]}"
    )


def test_the_images_command_answers_and_ends_as_a_user_without_rights(
    installed: Installed, free_port: int, tmp_path: Path
) -> None:
    log = tmp_path / "log.txt"
    process = installed.start([*dockerfile.command(), "--port", str(free_port)], log)
    url = f"http://127.0.0.1:{free_port}"
    try:
        wait(process, url, log)
        family = [psutil.Process(process.pid), *psutil.Process(process.pid).children(recursive=True)]
        expected = user() if os.geteuid() == 0 else os.geteuid()
        assert {member.uids().real for member in family} == {expected}

        (check,) = dockerfile.of("HEALTHCHECK")
        asked = json.loads(check.split("CMD")[1].replace(":8000", f":{free_port}"))
        assert installed.start(asked, log).wait(60) == 0

        model = httpx.get(f"{url}/v1/models").json()["data"][0]["id"]
        answer = httpx.post(f"{url}/v1/chat/completions", json=BODY | {"model": model}, timeout=120)
        assert answer.status_code == 200, answer.text
        assert answer.json()["choices"][0]["message"]["content"].strip()
        record = httpx.get(f"{url}/v1/requests/{answer.json()['id']}").json()
        assert (record["mode"], record["outcome"]) == ("qgpm", "success")

        process.send_signal(signal.SIGTERM)
        assert process.wait(60) == 0, log.read_text(errors="replace")[-3000:]
        _, left = psutil.wait_procs(family, timeout=30)
        assert left == []
    finally:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
