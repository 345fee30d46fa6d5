"""`/ready` answers 200 only where a request would be answered, and says why where not."""

import httpx
import pytest
from fastapi import FastAPI

from server import readiness
from server.drain import Drain
from server.pulse import Pulse
from server.readiness import Readiness


class Server:
    """A server whose engine computes when it is told."""

    def __init__(self) -> None:
        self.now = 0.0
        self.told = [0, 0]
        self.dead = False
        self.drain = Drain()
        self.pulse = Pulse(self._ask, lambda: self.now)
        self.readiness = Readiness(self.pulse, self.drain, lambda: self.dead, stall_seconds=60)

    async def _ask(self) -> list[int]:
        return self.told

    async def look(self) -> httpx.Response:
        app = FastAPI()
        app.include_router(readiness.router)
        app.state.ropeway_readiness = self.readiness
        async with httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://test") as client:
            response = await client.get("/ready")
        assert self.readiness.ready() == (response.status_code == 200)
        return response


@pytest.fixture
async def server() -> Server:
    """One that has started."""
    started = Server()
    await started.pulse.look()
    return started


async def test_a_server_is_not_ready_before_its_engine_has_answered() -> None:
    server = Server()
    response = await server.look()
    assert (response.status_code, response.json()["status"]) == (503, "starting")
    await server.pulse.look()
    response = await server.look()
    assert (response.status_code, response.json()) == (200, {"status": "ready"})


async def test_a_stall_turns_it_503_and_progress_back(server: Server) -> None:
    server.told = [128, 1]
    await server.pulse.look()
    server.now += 59
    assert (await server.look()).status_code == 200
    server.now += 2
    stalled = await server.look()
    assert (stalled.status_code, stalled.json()["status"]) == (503, "stalled")
    assert "61 s" in stalled.json()["reason"]
    assert "Retry-After" in stalled.headers
    server.told = [129, 1]
    await server.pulse.look()
    assert (await server.look()).status_code == 200


async def test_a_dead_engine_and_a_drain_are_named(server: Server) -> None:
    server.dead = True
    assert (await server.look()).json()["status"] == "dead"
    server.drain.finish(0, lambda: False)
    assert (await server.look()).json()["status"] == "draining"
