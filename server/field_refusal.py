"""Endpoints without our fields refuse them by name, since their bodies ignore fields they do not know."""

import json
from collections.abc import Callable
from http import HTTPStatus
from typing import Any

from fastapi import FastAPI
from starlette.datastructures import Headers
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from server.error_response import error_response
from server.middleware import put_last
from server.refusal import Reason

FIELDS = ("qgpm", "rope")
# /invocations leads to the same two handlers.
WITH_FIELDS = frozenset({"/v1/chat/completions", "/v1/completions", "/v1/qgpm/relevance", "/invocations"})


class FieldRefusal:
    """ASGI middleware: 400 for a JSON body that carries our fields to an endpoint without them.

    It reads whole bodies, so it stands behind all others: who has no key is refused before.
    """

    def __init__(self, app: ASGIApp, refuse: Callable[[Reason], None]) -> None:
        self._app = app
        self._refuse = refuse

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on, or refuse it."""
        if scope["type"] != "http" or not _may_carry(scope):
            await self._app(scope, receive, send)
            return
        messages = await _read(receive)
        name = _carried(b"".join(message.get("body", b"") for message in messages))
        if name is None:
            await self._app(scope, _replay(messages, receive), send)
            return
        self._refuse("endpoint")
        message = f"{name} works on /v1/chat/completions and /v1/completions, not on {_path(scope)}"
        await error_response(HTTPStatus.BAD_REQUEST, message, name)(scope, receive, send)


def refuse_fields(app: FastAPI, refuse: Callable[[Reason], None]) -> None:
    """Refuse them from now on; `refuse` counts it."""
    put_last(app, FieldRefusal, refuse=refuse)


def _may_carry(scope: Scope) -> bool:
    if scope["method"] != "POST" or _path(scope) in WITH_FIELDS:
        return False
    return not Headers(scope=scope).get("content-type", "").lower().startswith("multipart/")


def _path(scope: Scope) -> str:
    path: str = scope["path"]
    return path.removeprefix(scope.get("root_path", ""))  # a proxy may leave it there


async def _read(receive: Receive) -> list[Message]:
    messages = [await receive()]
    while messages[-1].get("more_body"):
        messages.append(await receive())
    return messages


def _replay(messages: list[Message], receive: Receive) -> Receive:
    waiting = iter(messages)

    async def replayed() -> Message:
        return next(waiting, None) or await receive()

    return replayed


def _carried(body: bytes) -> str | None:
    # An escaped name (\\u0071gpm) is the same name; most bodies hold neither, and are not parsed.
    if not any(name.encode() in body for name in FIELDS) and b"\\u" not in body:
        return None
    try:
        content: Any = json.loads(body)
    except (ValueError, RecursionError):  # not JSON, not decodable, too deep: the endpoint itself says so
        return None
    return next((name for name in FIELDS if isinstance(content, dict) and name in content), None)
