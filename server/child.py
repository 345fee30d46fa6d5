"""A server as a child process, for what measures one: tuning, load tests and tests."""

import asyncio
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Coroutine, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from tempfile import mkdtemp
from typing import Any, TypeVar

import httpx

# Where the packages lie: the child imports the same ones, whatever its working directory.
_ROOT = Path(__file__).resolve().parents[1]

_OURS = ("server.command", "serve")
WATCH_SECONDS = 1.0
"""How long a server that is asked may be gone before it is missed."""

Found = TypeVar("Found")

# The `vllm` command asks for the version of a distribution `vllm`, which the CPU build is not called.
_STOCK = ("vllm.entrypoints.launchers.api_server.entry", "--model")


@dataclass(frozen=True, slots=True)
class Server:
    """A server that answers; `url` without a trailing slash, `log` holds its stdout and stderr."""

    url: str
    log: Path
    process: "subprocess.Popen[bytes]"

    @property
    def pid(self) -> int:
        """Of the process that leads the server's group."""
        return self.process.pid

    def get(self, path: str) -> httpx.Response:
        return httpx.get(self.url + path, timeout=60)

    def post(self, path: str, body: Mapping[str, Any], timeout: float = 300) -> httpx.Response:
        return httpx.post(self.url + path, json=dict(body), timeout=timeout)

    def check(self) -> None:
        """Raises RuntimeError with the end of the log where the server has ended."""
        if (status := self.process.poll()) is not None:
            raise RuntimeError(f"server ended with {status}\n{_tail(self.log)}")

    async def serving(self, work: Coroutine[Any, Any, Found]) -> Found:
        """What the work finds, which asks this server; raises as `check` does once the server has ended."""
        task = asyncio.ensure_future(work)
        try:
            while not (await asyncio.wait({task}, timeout=WATCH_SECONDS))[0]:
                self.check()
            if task.exception() is not None:
                # It may be the first sign of the server's end.
                await asyncio.sleep(WATCH_SECONDS)
                self.check()
            return task.result()
        finally:
            task.cancel()


@contextmanager
def running_server(
    arguments: Sequence[str],
    env: Mapping[str, str] | None = None,
    *,
    stock: bool = False,
    command: Sequence[str] | None = None,
    ready_within: float = 300,
    log: Path | None = None,
    port: int | None = None,
) -> Iterator[Server]:
    """Serve `arguments` (the model, then flags) on a local port, by default a free one, until the block ends.

    `stock` runs vLLM's own server in place of ours; `command` runs anything else. Raises RuntimeError
    with the end of the log when the server ends early, or is not healthy within `ready_within` seconds.
    """
    port = port or _free_port()
    start = command or [sys.executable, "-m", *(_STOCK if stock else _OURS)]
    full = [*start, *arguments, "--host", "127.0.0.1", "--port", str(port)]
    log = log or Path(mkdtemp(prefix="ropeway-server-")) / "log.txt"
    with log.open("wb") as output:
        process = subprocess.Popen(
            full,
            stdout=output,
            stderr=subprocess.STDOUT,
            env=_environment(env),
            start_new_session=True,
        )
    server = Server(f"http://127.0.0.1:{port}", log, process)
    try:
        _wait_until_healthy(server, ready_within)
        yield server
    finally:
        _stop(process)


def _environment(extra: Mapping[str, str] | None) -> dict[str, str]:
    path = os.pathsep.join(filter(None, [str(_ROOT), os.environ.get("PYTHONPATH")]))
    defaults = {"HF_HUB_OFFLINE": "1", "VLLM_NO_USAGE_STATS": "1", "OMP_NUM_THREADS": "1"}
    return {**defaults, **os.environ, "PYTHONPATH": path, **(extra or {})}


def _free_port() -> int:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        port: int = listener.getsockname()[1]
    return port


def _wait_until_healthy(server: Server, seconds: float) -> None:
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        server.check()
        with suppress(httpx.TransportError):
            if httpx.get(f"{server.url}/health", timeout=5).status_code == 200:
                return
        time.sleep(0.5)
    raise RuntimeError(f"server not healthy after {seconds:.0f} s\n{_tail(server.log)}")


def _tail(log: Path) -> str:
    return log.read_text(errors="replace")[-6000:]


def _stop(process: "subprocess.Popen[bytes]") -> None:
    """Ask the server, then its own process group, to end; return when nothing of the group is left.

    What a server left that has ended already is asked nothing.
    """
    numbers = [signal.SIGKILL]
    if process.poll() is None:
        process.send_signal(signal.SIGINT)
        if _group_ended(process, within=20):
            return
        numbers.insert(0, signal.SIGTERM)
    for number in numbers:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, number)
        if _group_ended(process, within=10):
            return
    raise RuntimeError(f"processes of group {process.pid} do not end")


def _group_ended(process: "subprocess.Popen[bytes]", within: float) -> bool:
    deadline = time.monotonic() + within
    while time.monotonic() < deadline:
        process.poll()
        try:
            os.killpg(process.pid, 0)
        except ProcessLookupError:
            return True
        time.sleep(0.05)
    return False
