"""An endpoint of embeddings that say nothing: what a guard has to tell from relevance."""

import json
import random
from contextlib import AbstractContextManager
from http.server import BaseHTTPRequestHandler
from typing import Any

from loadtests.local_http import serving_by

NAME = "chance"
WIDTH = 64


def endpoint() -> AbstractContextManager[str]:
    """The URL under which `POST /embeddings` answers a text with normal numbers, always the same.

    A cosine of two texts' vectors is chance alone.
    """
    return serving_by(_Handler)


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
