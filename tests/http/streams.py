"""Streams of completions whose server changes its default profile meanwhile."""

import itertools
import json
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cache, partial
from typing import Any

import httpx

from server.child import Server
from server.likelihood import force, token_logprobs
from tests.http.servers import ADMIN_KEY, MODEL, complete, record

NEAR = 1e-3
START = {"base": 10_000.0}
OTHER = {"base": 300.0}
TOKENS = 600
_TRIES = 10
_salts = (f"stream {number}" for number in itertools.count())


@dataclass
class Streamed:
    """All that a stream of one choice brought."""

    id: str = ""
    text: str = ""
    tokens: list[int] = field(default_factory=list)
    logprobs: list[float] = field(default_factory=list)
    finish_reason: str | None = None
    stop_reason: Any = None
    usage: dict[str, Any] = field(default_factory=dict)

    def take(self, chunk: dict[str, Any]) -> None:
        """Add what a chunk brings."""
        self.id = chunk["id"]
        self.usage = chunk.get("usage") or self.usage
        for choice in chunk["choices"]:
            self.text += choice["text"]
            self.tokens += choice.get("token_ids") or []
            self.logprobs += (choice.get("logprobs") or {}).get("token_logprobs") or []
            self.finish_reason = choice["finish_reason"] or self.finish_reason
            self.stop_reason = choice.get("stop_reason") or self.stop_reason


@contextmanager
def streaming(server: Server, prompt: Any, **fields: Any) -> Iterator[Iterator[Streamed]]:
    """A greedy completion's stream, after each chunk; closing it early ends the request."""
    body = {
        "model": MODEL,
        "prompt": prompt,
        "stream": True,
        "stream_options": {"include_usage": True},
        "return_token_ids": True,
        "logprobs": 0,
        "temperature": 0,
        "ignore_eos": True,
        **fields,
    }
    with httpx.stream("POST", f"{server.url}/v1/completions", json=body, timeout=300) as response:
        assert response.status_code == 200, response.read()
        yield _chunks(response)


def _chunks(response: httpx.Response) -> Iterator[Streamed]:
    streamed = Streamed()
    for line in response.iter_lines():
        data = line.removeprefix("data: ")
        if data and data != "[DONE]":
            chunk = json.loads(data)
            assert "error" not in chunk, chunk
            streamed.take(chunk)
            yield streamed


def changed_at(
    server: Server, prompt: Any, change: Callable[[], Any], *, tokens: int = TOKENS, **fields: Any
) -> Streamed:
    """A whole stream, during which something happens, behind its first token.

    Another thread reads it: on few cores a tiny model is hundreds of tokens ahead of its readers.
    """
    default(server)
    begun = threading.Event()
    with ThreadPoolExecutor(1) as pool:
        stream = pool.submit(_read, server, prompt, begun, max_tokens=tokens, **fields)
        begun.wait()
        change()
        return stream.result()


def _read(server: Server, prompt: Any, begun: threading.Event, **fields: Any) -> Streamed:
    try:
        with streaming(server, prompt, **fields) as chunks:
            streamed = next(chunks)  # one object, which grows
            begun.set()
            deque(chunks, maxlen=0)
            return streamed
    finally:
        begun.set()


def rebuilding(server: Server, prompt: Any, **fields: Any) -> tuple[Streamed, dict[str, Any]]:
    """A whole stream during which the default became `OTHER`, and what the server told of that change."""
    for _ in range(_TRIES):
        changes: list[dict[str, Any]] = []
        change = partial(_to_other, server, changes)
        streamed = changed_at(server, prompt, change, **fields)
        if changes[0]["rebuilt"] or changes[0]["not_rebuilt"]:
            return streamed, changes[0]
        change_profile(server, "finish")  # on a busy machine an engine may be done before its reader
    raise AssertionError(f"{_TRIES} streams ended before their change")


def rebuilding_whole(server: Server, prompt: Any, **fields: Any) -> tuple[dict[str, Any], dict[str, Any]]:
    """A response without a stream, during whose first pass the default became `OTHER`; and that change."""
    for number in range(_TRIES):
        default(server)
        with ThreadPoolExecutor(1) as pool:
            answer = pool.submit(complete, server, prompt, cache_salt=f"{next(_salts)} {number}", **fields)
            while not (found := default(server)["running"]) and not answer.done():
                time.sleep(0.002)
            told = change_profile(server, "rebuild", **OTHER) if found else {}
            response = answer.result()
        if record(server, response)["profile"]["generation"] == told.get("generation"):
            return response, told
        change_profile(server, "finish")
    raise AssertionError(f"{_TRIES} answers ended before their change")


def _to_other(server: Server, changes: list[dict[str, Any]]) -> None:
    changes.append(change_profile(server, "rebuild", **OTHER))


@cache
def _client(url: str) -> httpx.Client:
    """One that keeps its connection: a server that streams fast may take new ones late."""
    return httpx.Client(base_url=url, timeout=60)


def change_profile(server: Server, running: str, **rule: Any) -> dict[str, Any]:
    """Change the server's default profile; without a rule to that of its start."""
    response = put_profile(server, {"running": running, **rule}, ADMIN_KEY)
    assert response.status_code == 200, response.text
    content: dict[str, Any] = response.json()
    return content


def put_profile(server: Server, body: Any, key: str | None, **headers: str) -> httpx.Response:
    """The response to a change, with an administrator's key or without."""
    sent = headers if key is None else {"X-Admin-Key": key, **headers}
    return _client(server.url).put("/v1/positional/profile", json=body, headers=sent)


def default(server: Server) -> dict[str, Any]:
    """What the server tells of its default profile."""
    content: dict[str, Any] = _client(server.url).get("/v1/positional").json()["default"]
    return content


def forced_logprobs(server: Server, prompt: list[int], tokens: list[int], **fields: Any) -> list[float]:
    """Log-probabilities of tokens behind a prompt in a request that reuses no block."""
    response = complete(server, prompt, logprobs=0, cache_salt=next(_salts), **force(tokens), **fields)
    return token_logprobs(response["choices"][0])


def agreeing(found: list[float], expected: list[float]) -> int:
    """How many values from the start are equal up to ties."""
    pairs = zip(found, expected, strict=True)
    return next((i for i, (a, b) in enumerate(pairs) if abs(a - b) > NEAR), len(found))
