"""Bodies that are larger than the server takes are refused before they are gathered."""

from collections.abc import Awaitable, Callable
from http import HTTPStatus

from fastapi import FastAPI
from starlette.datastructures import Headers
from starlette.requests import ClientDisconnect
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from server.error_response import error_response
from server.middleware import put_last

FLAG = "--max-body-bytes"
# More digits than any size has; Python refuses to read far longer ones.
_MOST_DIGITS = 18


class BodyLimit:
    """ASGI middleware: 413 for a body of more than `most` bytes; `refused` counts one.

    A declared length is refused before anything is read. Where none is declared, the endpoint is told that
    its client has left once more than that has come.
    """

    def __init__(self, app: ASGIApp, most: int, refused: Callable[[], None]) -> None:
        self._app = app
        self._most = most
        self._refused = refused

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on, or refuse it."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        declared = Headers(scope=scope).get("content-length", "")
        if declared.isdecimal() and len(declared) > _MOST_DIGITS:
            await self._refuse(f"has more than {self._most} bytes", scope, receive, send)
            return
        if declared.isdecimal() and int(declared) > self._most:
            await self._refuse(f"has {declared} bytes", scope, receive, send)
            return
        await _Counted(self._app, self._most, self._refuse).answer(scope, receive, send)

    async def _refuse(self, what: str, scope: Scope, receive: Receive, send: Send) -> None:
        self._refused()
        message = f"the body {what}, but this server takes {self._most} ({FLAG})"
        await error_response(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, message, "body")(scope, receive, send)


class _Counted:
    """One request whose body is counted while it comes."""

    def __init__(self, app: ASGIApp, most: int, refuse: Callable[..., Awaitable[None]]) -> None:
        self._app = app
        self._most = most
        self._refuse = refuse
        self._received = 0
        self._started = False
        self._over = False

    async def answer(self, scope: Scope, receive: Receive, send: Send) -> None:
        async def counted() -> Message:
            if self._over:
                return {"type": "http.disconnect"}
            message = await receive()
            self._received += len(message.get("body", b""))
            if self._received <= self._most:
                return message
            self._over = True
            if not self._started:
                await self._refuse(f"has more than {self._most} bytes", scope, receive, send)
            return {"type": "http.disconnect"}

        async def unless_over(message: Message) -> None:
            self._started = True
            if not self._over:
                await send(message)

        try:
            await self._app(scope, counted, unless_over)
        except ClientDisconnect:
            if not self._over:
                raise


def limit_bodies(app: FastAPI, most: int, refused: Callable[[], None]) -> None:
    """Take no larger bodies from now on; `most` in bytes, 0 for no limit."""
    if most:
        put_last(app, BodyLimit, most=most, refused=refused)
