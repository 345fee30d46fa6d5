"""A small HTTP server that streams completions with the delays it is told."""

import json
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler
from typing import Any

from loadtests.local_http import serving_by


@dataclass(slots=True)
class Script:
    """What is streamed: (seconds to wait, text), then usage unless told otherwise; `bodies` were asked."""

    deltas: Sequence[tuple[float, str]]
    usage: dict[str, Any] | None
    error: dict[str, Any] | None = None
    status: int = 200
    bodies: list[dict[str, Any]] = field(default_factory=list)


@contextmanager
def streaming(script: Script) -> Iterator[str]:
    """Serve until the block ends; the server's address."""

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            size = int(self.headers["Content-Length"])
            script.bodies.append(json.loads(self.rfile.read(size)))
            self.send_response(script.status)
            self.send_header("Content-Type", "text/event-stream")
            self.end_headers()
            for wait, text in script.deltas:
                time.sleep(wait)
                self._send({"id": "cmpl-1", "choices": [{"index": 0, "text": text}]})
            if script.error is not None:
                self._send({"error": script.error})
            if script.usage is not None:
                self._send({"id": "cmpl-1", "choices": [], "usage": script.usage})
            self.wfile.write(b"data: [DONE]\n\n")

        def _send(self, event: dict[str, Any]) -> None:
            self.wfile.write(f"data: {json.dumps(event)}\n\n".encode())
            self.wfile.flush()

        def log_message(self, format: str, *args: Any) -> None:
            """Say nothing."""

    with serving_by(Handler) as url:
        yield url
