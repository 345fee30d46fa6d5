"""One streamed completion as its caller sees it."""

import json
import time
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass
from typing import Any

import httpx


class StreamError(RuntimeError):
    """A completion that was refused, or that ended without tokens or usage."""


@dataclass(frozen=True, slots=True)
class Timing:
    """Seconds from sending to the first text, per token after it, and to the end; and the server's counts."""

    request_id: str
    first_token: float
    per_token: float
    total: float
    prompt_tokens: int
    cached_tokens: int
    output_tokens: int


async def stream(client: httpx.AsyncClient, url: str, body: Mapping[str, Any]) -> Timing:
    """Stream `body` from the completions endpoint of the server at `url`.

    The first token is the first delta that holds text: servers send empty ones before it. Raises StreamError.
    """
    asked = {**body, "stream": True, "stream_options": {"include_usage": True}}
    usage: Mapping[str, Any] = {}
    request_id = ""
    empty = 0
    first = last = None
    started = time.perf_counter()
    async with client.stream("POST", f"{url}/v1/completions", json=asked) as response:
        if response.status_code != 200:
            raise StreamError(f"{response.status_code}: {(await response.aread()).decode()}")
        async for event in _events(response):
            now = time.perf_counter()
            usage = event.get("usage") or usage
            request_id = event.get("id", request_id)
            for choice in event.get("choices", ()):
                if choice["text"] and first is None:
                    first = now
                empty += first is None
                last = now
    ended = time.perf_counter()
    if first is None or last is None or not usage:
        raise StreamError(f"the stream of {request_id or 'a request'} ended without text or usage")
    output = usage["completion_tokens"]
    details = usage.get("prompt_tokens_details") or {}
    return Timing(
        request_id,
        first - started,
        (last - first) / max(output - empty - 1, 1),
        ended - started,
        usage["prompt_tokens"],
        details.get("cached_tokens") or 0,
        output,
    )


async def _events(response: httpx.Response) -> AsyncIterator[dict[str, Any]]:
    async for line in response.aiter_lines():
        data = line.removeprefix("data: ")
        if data == line or data == "[DONE]":
            continue
        event: dict[str, Any] = json.loads(data)
        if "error" in event:
            raise StreamError(json.dumps(event["error"]))
        yield event
