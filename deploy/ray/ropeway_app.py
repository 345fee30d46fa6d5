"""Ropeway as an application of Ray Serve: every replica runs a server and passes requests on to it.

Not through `ray.serve.llm`: its engine is vLLM's own, which would ignore `qgpm` and `rope` in silence, and
its extra asks for another vLLM than Ropeway is pinned to.
"""

import signal
import socket
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Sequence
from typing import Any

import httpx
from fastapi import FastAPI, Request
from fastapi.responses import StreamingResponse
from pydantic import BaseModel
from ray import serve

# Of one connection, not of the message; the length stays, since bodies are passed on as they are.
_OF_THE_CONNECTION = frozenset({"connection", "keep-alive", "transfer-encoding", "upgrade", "te", "trailer"})
_METHODS = ["GET", "HEAD", "POST", "PUT", "DELETE", "OPTIONS"]
_LOOK_SECONDS = 0.5

app = FastAPI(docs_url=None, redoc_url=None, openapi_url=None)


class Arguments(BaseModel):
    """What the configuration file gives: the arguments of `ropeway serve` (a MODEL first), and two limits."""

    serve: list[str] = []
    start_seconds: float = 900
    stop_seconds: float = 60


# Ray copies the class as it is decorated, with what it finds by then: what it uses stands before it.
def _start(arguments: Sequence[str], port: int) -> "subprocess.Popen[bytes]":
    own = ["--host", "127.0.0.1", "--port", str(port)]
    return subprocess.Popen([sys.executable, "-m", "server.command", "serve", *arguments, *own])


def _free_port() -> int:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        port: int = listener.getsockname()[1]
    return port


def _kept(headers: Any) -> list[tuple[str, str]]:
    return [(name, value) for name, value in headers if name.lower() not in _OF_THE_CONNECTION]


async def _bytes(answer: httpx.Response) -> AsyncIterator[bytes]:
    """The body as it came, still encoded; a client that leaves ends the request to the server."""
    try:
        async for part in answer.aiter_raw():
            yield part
    finally:
        await answer.aclose()


@serve.deployment(name="ropeway")
@serve.ingress(app)
class Replica:
    """One server on a free port of the loopback, with the GPUs that Ray gave this replica."""

    def __init__(self, arguments: Arguments) -> None:
        self._arguments = arguments
        port = _free_port()
        self._server = _start(arguments.serve, port)
        self._client = httpx.AsyncClient(base_url=f"http://127.0.0.1:{port}", timeout=None)
        self._wait(f"http://127.0.0.1:{port}/health")

    def _wait(self, address: str) -> None:
        deadline = time.monotonic() + self._arguments.start_seconds
        while self._server.poll() is None and time.monotonic() < deadline:
            try:
                if httpx.get(address, timeout=5).is_success:
                    return
            except httpx.TransportError:
                time.sleep(_LOOK_SECONDS)
        self.__del__()
        raise RuntimeError("ropeway serve did not start; its output is in the replica's log")

    async def check_health(self) -> None:
        """Have Ray replace a replica whose engine is dead."""
        if self._server.poll() is not None:
            raise RuntimeError(f"ropeway serve ended with {self._server.returncode}")
        (await self._client.get("/health")).raise_for_status()

    @app.api_route("/{path:path}", methods=_METHODS)
    async def forward(self, request: Request) -> StreamingResponse:
        """Pass a request on, and its answer back as it comes."""
        url = httpx.URL(path=request.url.path, query=request.url.query.encode())
        asked = self._client.build_request(
            request.method, url, headers=_kept(request.headers.items()), content=await request.body()
        )
        answer = await self._client.send(asked, stream=True)
        headers = dict(_kept(answer.headers.items()))
        return StreamingResponse(_bytes(answer), answer.status_code, headers)

    def __del__(self) -> None:
        """End the server as Kubernetes would: answers under way may finish."""
        if self._server.poll() is None:
            self._server.send_signal(signal.SIGTERM)
            try:
                self._server.wait(self._arguments.stop_seconds)
            except subprocess.TimeoutExpired:
                self._server.kill()


def build(arguments: Arguments) -> serve.Application:
    """What `serve deploy` imports."""
    return Replica.bind(arguments)
