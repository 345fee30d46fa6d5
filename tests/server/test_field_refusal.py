"""What the middleware that refuses our fields lets through, and what it reads for it."""

import asyncio
import json
from typing import Any

import pytest
from starlette.types import Message, Receive, Scope, Send

from server.field_refusal import FieldRefusal
from server.refusal import Reason

PARTS = [b'{"qg', b'pm": true}']
REFUSED: list[Reason] = []


def _ask(
    body: list[bytes] = PARTS, path: str = "/tokenize", method: str = "POST", **more: Any
) -> tuple[int, bytes, int]:
    """Status, what the endpoint read or the error, and how many parts were asked for before the endpoint."""
    asked = asked_before = 0
    sent: list[Message] = []

    async def receive() -> Message:
        nonlocal asked
        asked += 1
        return {"type": "http.request", "body": body[asked - 1], "more_body": asked < len(body)}

    async def send(message: Message) -> None:
        sent.append(message)

    async def endpoint(scope: Scope, receive: Receive, send: Send) -> None:
        nonlocal asked_before
        asked_before = asked
        read = [await receive() for _ in body]
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": b"".join(part["body"] for part in read)})

    scope = {"type": "http", "method": method, "path": path, "headers": [], **more}
    asyncio.run(FieldRefusal(endpoint, REFUSED.append)(scope, receive, send))
    return sent[0]["status"], sent[1]["body"], asked_before


def test_a_body_in_parts_is_refused_as_a_whole_and_counted() -> None:
    REFUSED.clear()
    status, answer, _ = _ask()
    assert status == 400
    assert json.loads(answer)["error"]["param"] == "qgpm"
    assert REFUSED == ["endpoint"]


def test_a_body_without_our_fields_reaches_the_endpoint_whole() -> None:
    assert _ask([b'{"q', b'": 1}']) == (200, b'{"q": 1}', 2)


@pytest.mark.parametrize("path", ["/v1/chat/completions", "/v1/completions", "/v1/qgpm/relevance"])
def test_endpoints_with_our_fields_read_their_bodies_themselves(path: str) -> None:
    assert _ask(path=path) == (200, b"".join(PARTS), 0)


def test_a_prefix_that_a_proxy_left_makes_no_other_endpoint() -> None:
    assert _ask(path="/api/v1/completions", root_path="/api")[0] == 200
    assert _ask(path="/api/tokenize", root_path="/api")[0] == 400


def test_uploads_are_not_gathered() -> None:
    headers = [(b"content-type", b"multipart/form-data; boundary=x")]
    assert _ask(path="/v1/audio/transcriptions", headers=headers) == (200, b"".join(PARTS), 0)
