"""The end of a server: what runs may finish, what comes is sent elsewhere."""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http import HTTPStatus

from fastapi import FastAPI
from starlette.types import ASGIApp, Receive, Scope, Send

from server.error_response import error_response
from server.middleware import put_first

RETRY_AFTER_SECONDS = 5

_READS = frozenset({"GET", "HEAD", "OPTIONS"})
_LOOK_SECONDS = 0.05


class Drain:
    """How many HTTP requests are being answered, and whether the server takes no more.

    A request of two passes is one request here until its last byte, so that its answer pass is not refused
    where its score pass was still accepted.
    """

    def __init__(self) -> None:
        self.started = False
        self.running = 0
        self._hurried = False

    @contextmanager
    def answering(self) -> Iterator[None]:
        """Count a request while it is answered."""
        self.running += 1
        try:
            yield
        finally:
            self.running -= 1

    def hurry(self) -> None:
        """Wait for nothing, now or later."""
        self._hurried = True

    def finish(self, seconds: float, busy: Callable[[], bool]) -> bool:
        """Take no more requests and block this thread until none runs; whether that was so in time.

        `busy`: whether the engine has work that no HTTP request waits for.
        """
        self.started = True
        deadline = time.monotonic() + seconds
        while self.running or busy():
            if self._hurried or time.monotonic() >= deadline:
                return False
            time.sleep(_LOOK_SECONDS)
        return True


class DrainGate:
    """ASGI middleware: counts requests that change or compute something; 503 for new ones in a drain."""

    def __init__(self, app: ASGIApp, drain: Drain) -> None:
        self._app = app
        self._drain = drain

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on, or refuse it."""
        if scope["type"] != "http" or scope["method"] in _READS:
            await self._app(scope, receive, send)
        elif self._drain.started:
            await _refusal()(scope, receive, send)
        else:
            with self._drain.answering():
                await self._app(scope, receive, send)


def guard(app: FastAPI, drain: Drain) -> None:
    """Put the gate before everything else, so that a request is counted until its last byte."""
    put_first(app, DrainGate, drain=drain)


def _refusal() -> ASGIApp:
    # The connection would lead to this same server again.
    headers = {"Retry-After": str(RETRY_AFTER_SECONDS), "Connection": "close"}
    return error_response(
        HTTPStatus.SERVICE_UNAVAILABLE, "this server is shutting down; another one will answer", None, headers
    )
