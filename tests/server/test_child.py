"""What is asked of a child server ends with it."""

import asyncio
import os
import signal
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from server.child import Server, running_server

SERVER = """
import sys
from http.server import BaseHTTPRequestHandler, HTTPServer

class Healthy(BaseHTTPRequestHandler):
    def do_GET(self):
        print("asked for", self.path, flush=True)
        self.send_response(200)
        self.end_headers()

HTTPServer(("127.0.0.1", int(sys.argv[-1])), Healthy).serve_forever()
"""


@pytest.fixture
def server() -> Iterator[Server]:
    with running_server([], command=[sys.executable, "-c", SERVER], ready_within=30) as started:
        yield started


async def test_work_is_done_beside_its_server(server: Server) -> None:
    async def work() -> int:
        await asyncio.sleep(0.01)
        return 7

    assert await server.serving(work()) == 7


async def test_an_error_of_the_work_stays_what_it_is(server: Server) -> None:
    async def work() -> None:
        raise ValueError("a refusal")

    with pytest.raises(ValueError, match="a refusal"):
        await server.serving(work())


async def test_work_that_waits_for_a_server_that_ended_is_cancelled(server: Server) -> None:
    cancelled = []

    async def work() -> None:
        os.kill(server.pid, signal.SIGKILL)
        try:
            await asyncio.sleep(600)
        except asyncio.CancelledError:
            cancelled.append(True)
            raise

    with pytest.raises(RuntimeError, match=r"server ended with -9\n(.*\n)*asked for /health"):
        await server.serving(work())
    await asyncio.sleep(0)
    assert cancelled == [True]


async def test_work_that_fails_with_its_server_says_that_the_server_ended(server: Server) -> None:
    async def work() -> None:
        os.kill(server.pid, signal.SIGKILL)
        raise ConnectionError

    with pytest.raises(RuntimeError, match="server ended with -9"):
        await server.serving(work())


def test_what_a_killed_server_left_is_ended_too(tmp_path: Path) -> None:
    begun = tmp_path / "begun"
    left = f"import time; open({str(begun)!r}, 'w').close(); time.sleep(600)"
    parent = f"import subprocess, sys; subprocess.Popen([sys.executable, '-c', {left!r}])\n{SERVER}"
    with running_server([], command=[sys.executable, "-c", parent], ready_within=30) as started:
        while not begun.exists():
            time.sleep(0.01)
        started.process.kill()
        started.process.wait()
    with pytest.raises(ProcessLookupError):
        os.killpg(started.pid, 0)
