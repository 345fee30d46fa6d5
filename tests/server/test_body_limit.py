"""A body that is too large is refused before it is gathered, however it comes."""

import asyncio
import json
from typing import Any

import pytest
from starlette.requests import Request
from starlette.types import Message, Receive, Scope, Send

from server.body_limit import BodyLimit

MOST = 10


def _ask(
    parts: list[bytes], declared: str | None = None, answers_first: bool = False
) -> tuple[list[Message], int, int]:
    """What was sent, how many parts were read, and how many bodies were counted as refused."""
    read = refused = 0
    sent: list[Message] = []

    async def receive() -> Message:
        nonlocal read
        read += 1
        return {"type": "http.request", "body": parts[read - 1], "more_body": read < len(parts)}

    async def send(message: Message) -> None:
        sent.append(message)

    def count() -> None:
        nonlocal refused
        refused += 1

    async def endpoint(scope: Scope, receive: Receive, send: Send) -> None:
        start: dict[str, Any] = {"type": "http.response.start", "status": 200, "headers": []}
        if answers_first:
            await send(start)
        body = await Request(scope, receive).body()
        if not answers_first:
            await send(start)
        await send({"type": "http.response.body", "body": body})

    headers = [] if declared is None else [(b"content-length", declared.encode())]
    scope = {"type": "http", "method": "POST", "path": "/v1/completions", "headers": headers}
    asyncio.run(BodyLimit(endpoint, MOST, count)(scope, receive, send))
    return sent, read, refused


def _assert_refused(sent: list[Message], *parts: str) -> None:
    assert [message["type"] for message in sent] == ["http.response.start", "http.response.body"]
    assert sent[0]["status"] == 413
    error = json.loads(sent[1]["body"])["error"]
    assert (error["param"], error["code"]) == ("body", 413)
    assert all(part in error["message"] for part in ("--max-body-bytes", str(MOST), *parts))


def test_a_declared_length_is_refused_before_anything_is_read() -> None:
    sent, read, refused = _ask([b"x" * 11], declared="11")
    _assert_refused(sent, "11 bytes")
    assert (read, refused) == (0, 1)


@pytest.mark.parametrize("declared", ["9" * 19, "9" * 5000])
def test_a_declared_length_that_no_machine_holds_is_refused(declared: str) -> None:
    sent, read, _ = _ask([b"x"], declared)
    _assert_refused(sent, "more than 10 bytes")
    assert read == 0


def test_a_body_without_a_length_is_refused_when_more_than_that_has_come() -> None:
    sent, read, refused = _ask([b"x" * 6, b"x" * 6, b"x" * 6, b"x" * 6])
    _assert_refused(sent, "more than 10 bytes")
    assert (read, refused) == (2, 1)


def test_a_length_that_is_none_is_counted() -> None:
    sent, read, _ = _ask([b"x" * 6, b"x" * 6], declared="-1")
    _assert_refused(sent)
    assert read == 2


def test_an_answer_that_has_begun_is_cut_off() -> None:
    sent, _, refused = _ask([b"x" * 6, b"x" * 6], answers_first=True)
    assert [message.get("status") for message in sent] == [200]
    assert refused == 0


@pytest.mark.parametrize("declared", [None, "10"])
def test_a_body_of_just_that_size_passes(declared: str | None) -> None:
    sent, _, refused = _ask([b"x" * 5, b"y" * 5], declared)
    assert sent[1]["body"] == b"xxxxxyyyyy"
    assert refused == 0
