"""An endpoint of embeddings that say nothing: what a guard has to tell from relevance."""

import json
import random
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

NAME = "chance"
WIDTH = 64


@contextmanager
def endpoint() -> Iterator[str]:
    """The URL under which `POST /embeddings` answers a text with normal numbers, always the same.

    A cosine of two texts' vectors is chance alone.
    """
    with ThreadingHTTPServer(("127.0.0.1", 0), _Handler) as server:
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}"
        finally:
            server.shutdown()
            thread.join()


class _Handler(BaseHTTPRequestHandler):
    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        data = [
            {"object": "embedding", "index": index, "embedding": _vector(text)}
            for index, text in enumerate(body["input"])
        ]
        said = json.dumps({"object": "list", "model": NAME, "data": data, "usage": _USAGE}).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(said)))
        self.end_headers()
        self.wfile.write(said)

    def log_message(self, format: str, *args: Any) -> None:
        """Says nothing: a bar stands on standard error."""


_USAGE = {"prompt_tokens": 0, "total_tokens": 0}


def _vector(text: str) -> list[float]:
    draw = random.Random(text)
    return [draw.gauss(0, 1) for _ in range(WIDTH)]
