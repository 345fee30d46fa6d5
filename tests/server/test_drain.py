"""In a drain what runs may finish, and what comes is sent elsewhere."""

import asyncio
import threading
import time
from collections.abc import AsyncIterator

import httpx
import pytest
from fastapi import FastAPI
from fastapi.responses import StreamingResponse

from server.drain import Drain, guard


def _never_busy() -> bool:
    return False


@pytest.fixture
def drain() -> Drain:
    return Drain()


@pytest.fixture
async def client(drain: Drain) -> AsyncIterator[httpx.AsyncClient]:
    app = FastAPI()
    guard(app, drain)

    @app.get("/metrics")
    async def metrics() -> int:
        return drain.running

    @app.post("/answer")
    async def answer() -> StreamingResponse:
        async def tokens() -> AsyncIterator[str]:
            while not drain.started:
                yield f"{drain.running}"
                await asyncio.sleep(0.01)
            yield "end"

        return StreamingResponse(tokens())

    async with httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://test") as opened:
        yield opened


async def test_a_running_answer_is_counted_until_its_last_byte_and_finishes(
    drain: Drain, client: httpx.AsyncClient
) -> None:
    answering = asyncio.create_task(client.post("/answer"))
    while not drain.running:
        await asyncio.sleep(0.01)
    assert await asyncio.to_thread(drain.finish, 30, _never_busy)
    assert (await answering).text.endswith("1end")
    assert drain.running == 0


async def test_a_new_request_is_told_to_come_again_elsewhere(drain: Drain, client: httpx.AsyncClient) -> None:
    drain.finish(0, _never_busy)
    refused = await client.post("/answer")
    assert refused.status_code == 503
    assert int(refused.headers["Retry-After"]) > 0
    assert refused.headers["Connection"] == "close"
    assert refused.json()["error"]["type"] == "ServiceUnavailableError"
    assert (await client.get("/metrics")).status_code == 200


def test_reading_does_not_keep_a_server_alive(drain: Drain) -> None:
    assert drain.finish(30, _never_busy)


def test_a_drain_ends_when_its_time_is_over(drain: Drain) -> None:
    with drain.answering():
        assert not drain.finish(0.1, _never_busy)


def test_work_of_the_engine_that_no_http_request_waits_for_may_finish_too(drain: Drain) -> None:
    busy = iter([True, True, False])
    assert drain.finish(30, lambda: next(busy))


def test_who_is_in_a_hurry_waits_for_nothing(drain: Drain) -> None:
    with drain.answering():
        threading.Timer(0.2, drain.hurry).start()
        started = time.monotonic()
        assert not drain.finish(600, _never_busy)
        assert time.monotonic() - started < 60
        assert not drain.finish(600, _never_busy)
