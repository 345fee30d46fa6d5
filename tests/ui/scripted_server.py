"""A server of the page whose answers are told beforehand: for delays, failures and hostile texts."""

import asyncio
import json
import threading
import time
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import uvicorn
from fastapi import FastAPI, Request, Response
from fastapi.responses import JSONResponse, PlainTextResponse, StreamingResponse

from server.ui_route import add_page

METRICS = """# HELP ropeway_ttft_seconds Seconds.
# TYPE ropeway_ttft_seconds histogram
ropeway_ttft_seconds_sum{mode="plain",relevance="none",memo="none"} 1.5
ropeway_ttft_seconds_count{mode="plain",relevance="none",memo="none"} 3.0
ropeway_ttft_seconds_sum{mode="qgpm",relevance="heads",memo="miss"} 6.0
ropeway_ttft_seconds_count{mode="qgpm",relevance="heads",memo="miss"} 2.0
ropeway_ttft_seconds_sum{mode="qgpm",relevance="heads",memo="hit"} 2.0
ropeway_ttft_seconds_count{mode="qgpm",relevance="heads",memo="hit"} 2.0
vllm:num_requests_running{engine="0",model_name="a \\"quoted\\" name"} 3.0
vllm:num_requests_waiting{engine="0",model_name="a \\"quoted\\" name"} 4.0
"""
_GROUP = {"bytes_used": 1024**2, "bytes_cached": 2 * 1024**2}
CACHE = {
    "pools": [
        {
            "name": "kv",
            "bytes_total": 16 * 1024**2,
            "bytes_free": 12 * 1024**2,
            "bytes_reserved": 1024**2,
            "groups": [_GROUP],
        }
    ],
    "capacity_tokens": 4096,
    "memo": {"entries": 1, "bytes": 100, "limit": 1000, "hits": 2, "misses": 3, "evictions": 0},
}


@dataclass(slots=True)
class Script:
    """What a server says: `pieces` of every answer, `first` and `between` seconds apart.

    `refusal`: status, body and headers in place of a chat's answer; `failure`: the error in the midst of it;
    `sentences` of the score pass, the most relevant first; `key`: what requests of the API must bring.
    `bodies`: the chats that were asked. `answering`: how many answers come now, `most` at the most so far.
    """

    pieces: Sequence[str] = ("The", " answer", ".")
    first: float = 0.0
    between: float = 0.0
    refusal: tuple[int, dict[str, Any], dict[str, str]] | None = None
    failure: str | None = None
    sentences: Sequence[str] = ("First sentence. ", "Second sentence.")
    key: str | None = None
    bodies: list[dict[str, Any]] = field(default_factory=list)
    most: int = 0
    answering: int = 0


@contextmanager
def scripted(script: Script) -> Iterator[str]:
    """Serve until the block ends; the page's address."""
    server = uvicorn.Server(uvicorn.Config(_app(script), port=0, log_level="warning", lifespan="off"))
    thread = threading.Thread(target=server.run)
    thread.start()
    try:
        while not server.started:
            time.sleep(0.01)
        port = server.servers[0].sockets[0].getsockname()[1]
        yield f"http://127.0.0.1:{port}/ui/"
    finally:
        server.should_exit = True
        thread.join()


def _app(script: Script) -> FastAPI:
    app = FastAPI()
    add_page(app)

    @app.middleware("http")
    async def guard(request: Request, call_next: Any) -> Response:
        wanted = f"Bearer {script.key}"
        if (
            script.key
            and request.url.path.startswith("/v1")
            and request.headers.get("Authorization") != wanted
        ):
            return JSONResponse({"error": "Unauthorized"}, 401)
        answer: Response = await call_next(request)
        return answer

    @app.get("/v1/models")
    async def models() -> dict[str, Any]:
        return {"data": [{"id": "scripted"}]}

    @app.get("/v1/cache")
    async def cache() -> dict[str, Any]:
        return CACHE

    @app.get("/metrics")
    async def metrics() -> PlainTextResponse:
        return PlainTextResponse(METRICS)

    @app.get("/v1/requests/{name:path}")
    async def record(name: str) -> dict[str, Any]:
        return {"id": name, "mode": "qgpm", "seconds": {"score": 0.25, "answer": 0.125}, "memo": False}

    @app.post("/v1/qgpm/relevance")
    async def relevance() -> dict[str, Any]:
        return _relevance(script.sentences)

    @app.post("/v1/chat/completions")
    async def chat(body: dict[str, Any]) -> Response:
        script.bodies.append(body)
        if script.refusal is not None:
            status, content, headers = script.refusal
            return JSONResponse(content, status, headers)
        return StreamingResponse(_events(script), media_type="text/event-stream")

    return app


async def _events(script: Script) -> AsyncIterator[str]:
    script.answering += 1
    script.most = max(script.most, script.answering)
    try:
        async for event in _answer(script):
            yield event
    finally:
        script.answering -= 1


async def _answer(script: Script) -> AsyncIterator[str]:
    yield _event({"id": "chat/1", "choices": [{"delta": {"role": "assistant", "content": ""}}]})
    await asyncio.sleep(script.first)
    for piece in script.pieces:
        yield _event({"id": "chat/1", "choices": [{"delta": {"content": piece}}]})
        await asyncio.sleep(script.between)
    if script.failure is not None:
        yield _event({"error": {"message": script.failure}})
    yield "data: [DONE]\n\n"


def _event(content: dict[str, Any]) -> str:
    return f"data: {json.dumps(content)}\n\n"


def _relevance(sentences: Sequence[str]) -> dict[str, Any]:
    rows = [
        {
            "start": 10 * i,
            "end": 10 * (i + 1),
            "rank": i,
            "z": 1.0 - i,
            "broad": 1.0,
            "sharp": 0.3,
            "text": text,
        }
        for i, text in enumerate(sentences)
    ]
    tokens = [0, 10 * len(sentences)]
    planes = [
        {"name": name, "plane": number, "broad": [0.0, 8.0], "sharp": [0.0, 5.0]}
        for number, name in enumerate(("fast", "boundary", "slow"))
    ]
    return {
        "tokens": {"prompt": tokens[1] + 1},
        "relevance": {"name": "heads"},
        "sentences": rows,
        "protected_prefix": 10,
        "positions": {"tokens": tokens, "boundary": 1.0, "planes": planes},
    }
