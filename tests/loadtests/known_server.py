"""An OpenAI server over real HTTP that answers exactly as late as it is told, and fails as often."""

import json
import time
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler
from itertools import count
from typing import Any, Literal

from loadtests.local_http import serving_by

Failure = Literal["busy", "error", "silent"]
PROMPT_TOKENS = 500


@dataclass(slots=True)
class Known:
    """`first_token` and `per_token` in seconds; a chunk without text comes at once.

    Streams count from 1: `slow` ones take twice as long, `failing` ones fail in the named way. `cached` is
    what usage says. `fields`: whether the server says that it knows ours. `refused`: names that no body may
    hold. What was streamed is noted in `bodies` and, by the clock, in `arrivals`.
    """

    first_token: float
    per_token: float
    slow: Collection[int] = ()
    failing: Mapping[int, Failure] = field(default_factory=dict)
    cached: int | None = None
    fields: bool = False
    refused: tuple[str, ...] = ()
    bodies: list[dict[str, Any]] = field(default_factory=list)
    arrivals: list[float] = field(default_factory=list)


@contextmanager
def serving(known: Known) -> Iterator[str]:
    """Serve until the block ends; the server's address."""
    numbers = count(1)

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            answers: dict[str, Any] = {"/v1/models": {"data": [{"id": "known", "max_model_len": 8192}]}}
            if known.fields:
                group = {"bytes_used": 100, "bytes_cached": 20}
                pool = {"name": "kv", "bytes_total": 1000, "groups": [group]}
                answers |= {"/v1/positional": {}, "/v1/cache": {"pools": [pool]}}
            self._answer(200 if self.path in answers else 404, answers.get(self.path, {}))

        def do_POST(self) -> None:
            arrived = time.monotonic()
            body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            if refused := next((name for name in known.refused if name in body), None):
                self._answer(400, {"error": {"message": f"{refused} is unknown"}})
            elif not body.get("stream"):
                self._answer(200, {"usage": {"prompt_tokens": PROMPT_TOKENS, "completion_tokens": 1}})
            else:
                known.bodies.append(body)
                known.arrivals.append(arrived)
                self._stream(body, arrived, next(numbers))

        def _stream(self, body: Mapping[str, Any], arrived: float, number: int) -> None:
            failure = known.failing.get(number)
            if failure == "busy":
                self._answer(503, {"error": {"message": "too busy"}})
                return
            self.send_response(200)
            self.send_header("Content-Type", "text/event-stream")
            self.end_headers()
            self._send({"role": "assistant", "content": ""})
            if failure == "error":
                self._write({"error": {"message": "the engine died"}})
            if failure in ("error", "silent"):
                self.wfile.write(b"data: [DONE]\n\n")
                return
            factor = 2 if number in known.slow else 1
            for token in range(body["max_tokens"]):
                due = arrived + factor * (known.first_token + token * known.per_token)
                time.sleep(max(due - time.monotonic(), 0))
                self._send({"content": f" t{token}"})
            self._send({}, finish_reason="stop")
            details = None if known.cached is None else {"cached_tokens": known.cached}
            usage = {"prompt_tokens": PROMPT_TOKENS, "completion_tokens": body["max_tokens"]}
            self._write({"choices": [], "usage": {**usage, "prompt_tokens_details": details}})
            self.wfile.write(b"data: [DONE]\n\n")

        def _send(self, delta: Mapping[str, Any], **more: Any) -> None:
            said = {"delta": delta} if "/chat/" in self.path else {"text": delta.get("content", "")}
            self._write({"id": "c", "choices": [{"index": 0, **said, **more}]})

        def _write(self, event: Mapping[str, Any]) -> None:
            self.wfile.write(f"data: {json.dumps(event)}\n\n".encode())
            self.wfile.flush()

        def _answer(self, status: int, content: Mapping[str, Any]) -> None:
            text = json.dumps(content).encode()
            self.send_response(status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(text)))
            self.end_headers()
            self.wfile.write(text)

        def log_message(self, format: str, *args: Any) -> None:
            """Say nothing."""

    with serving_by(Handler) as url:
        yield url
