"""`GET /v1/cache` and the metrics that say the same."""

import asyncio
import time
from itertools import count
from pathlib import Path
from typing import Any

import httpx
import pytest

from server.child import Server, running_server
from tests.http.engine_core import core_of
from tests.http.servers import (
    API_KEY,
    BLOCK,
    CROWDED_BLOCKS,
    CROWDED_LENGTH,
    MODEL,
    PROMPT,
    SHARED,
    complete,
    metric,
    wait_until_idle,
)

pytest_plugins = ("tests.http.fixtures",)

_salts = count()


@pytest.fixture
def salt() -> str:
    """A salt under which nothing is cached."""
    return f"cache memory {next(_salts)}"


def _memory(server: Server) -> dict[str, Any]:
    response = httpx.get(f"{server.url}/v1/cache", headers={"Authorization": f"Bearer {API_KEY}"}, timeout=60)
    assert response.status_code == 200, response.text
    memory: dict[str, Any] = response.json()
    return memory


def _used(memory: dict[str, Any]) -> int:
    return sum(group["bytes_used"] for pool in memory["pools"] for group in pool["groups"])


def _first_used(server: Server, seconds: float = 30) -> dict[str, Any]:
    """The memory as soon as some of it is used."""
    deadline = time.monotonic() + seconds
    while not _used(memory := _memory(server)):
        assert time.monotonic() < deadline, "nothing was used"
    return memory


def test_the_answer_has_the_documented_shape(server: Server) -> None:
    memory = _memory(server)
    assert list(memory) == [
        *("pools", "capacity_tokens", "hit_tokens", "evicted_blocks", "memo", "invalidations"),
    ]
    assert [pool["name"] for pool in memory["pools"]] == ["kv", "shadow"]
    for pool in memory["pools"]:
        assert list(pool) == ["name", "bytes_total", "bytes_free", "bytes_reserved", "groups"]
        for group in pool["groups"]:
            assert list(group) == [
                *("name", "kind", "layers", "window", "bytes_used", "bytes_cached", "bytes_per_token"),
            ]
    assert list(memory["hit_tokens"]) == ["plain", "document", "protected", "modulated"]
    assert list(memory["memo"]) == ["entries", "bytes", "limit", "hits", "misses", "evictions"]


def test_metrics_say_what_the_answer_says(server: Server, salt: str) -> None:
    for _ in range(2):
        complete(server, cache_salt=salt, qgpm=True)
    wait_until_idle(server)
    memory = _memory(server)
    for pool in memory["pools"]:
        named = {"pool": pool["name"]}
        assert metric(server, "ropeway_cache_bytes", **named) == pool["bytes_total"]
        for state in ("free", "reserved"):
            assert metric(server, "ropeway_cache_bytes", state=state, **named) == pool[f"bytes_{state}"]
        for group in pool["groups"]:
            for state in ("used", "cached"):
                labels = {"group": group["name"], "state": state, **named}
                assert metric(server, "ropeway_cache_bytes", **labels) == group[f"bytes_{state}"]
    for kind, tokens in memory["hit_tokens"].items():
        assert metric(server, "ropeway_cache_hit_tokens_total", kind=kind) == tokens
    assert metric(server, "ropeway_cache_capacity_tokens") == memory["capacity_tokens"]
    assert metric(server, "ropeway_cache_evicted_blocks_total") == memory["evicted_blocks"]
    names = {"entries": "entries", "bytes": "bytes", "limit_bytes": "limit"}
    names |= {f"{counter}_total": counter for counter in ("hits", "misses", "evictions")}
    for name, told in names.items():
        assert metric(server, f"ropeway_memo_{name}") == memory["memo"][told]
    for cause, times in memory["invalidations"].items():
        assert metric(server, "ropeway_invalidations_total", cause=cause) == times


def test_metrics_are_of_the_moment_they_are_asked_for(server: Server, salt: str) -> None:
    wait_until_idle(server)
    before = metric(server, "ropeway_cache_hit_tokens_total", kind="plain")
    for _ in range(2):
        complete(server, prompt=[7] * (4 * BLOCK + 1), cache_salt=salt)
    assert metric(server, "ropeway_cache_hit_tokens_total", kind="plain") - before == 4 * BLOCK


def test_each_pass_counts_its_own_hits(server: Server, salt: str) -> None:
    before = _memory(server)["hit_tokens"]
    complete(server, cache_salt=salt)
    complete(server, cache_salt=salt, qgpm=True)
    found = {kind: tokens - before[kind] for kind, tokens in _memory(server)["hit_tokens"].items()}
    assert found["plain"] == found["modulated"] == 0
    assert found["document"] % BLOCK == 0
    assert found["document"] > 0
    complete(server, cache_salt=salt, qgpm=True)
    again = {kind: tokens - before[kind] for kind, tokens in _memory(server)["hit_tokens"].items()}
    # The relevance was remembered: there was no second score pass.
    assert again["document"] == found["document"]
    assert again["modulated"] > 0


async def test_used_is_told_while_a_stream_runs_and_zero_behind_its_abort(server: Server, salt: str) -> None:
    await asyncio.to_thread(wait_until_idle, server)
    assert _used(_memory(server)) == 0
    body = {
        "model": MODEL,
        "prompt": PROMPT,
        "max_tokens": 2000,
        "n": 12,  # long enough to be seen on a busy machine
        "ignore_eos": True,
        "stream": True,
        "cache_salt": salt,
        "qgpm": True,
    }
    async with (
        httpx.AsyncClient(timeout=60) as client,
        client.stream("POST", f"{server.url}/v1/completions", json=body) as response,
    ):
        assert response.status_code == 200
        running = await asyncio.to_thread(_first_used, server)
    tokens = {pool["name"]: pool["groups"][0]["bytes_per_token"] for pool in running["pools"]}
    used = {pool["name"]: pool["groups"][0]["bytes_used"] for pool in running["pools"]}
    assert used["kv"] // tokens["kv"] == used["shadow"] // tokens["shadow"] > 0
    await asyncio.to_thread(wait_until_idle, server)
    assert _used(_memory(server)) == 0


def test_the_capacity_is_twice_the_longest_request(crowded: Server) -> None:
    memory = _memory(crowded)
    (kv,) = (pool for pool in memory["pools"] if pool["name"] == "kv")
    assert memory["capacity_tokens"] == 2 * CROWDED_LENGTH
    assert kv["bytes_total"] == CROWDED_BLOCKS * BLOCK * kv["groups"][0]["bytes_per_token"]


def test_the_route_wants_the_api_key(crowded: Server) -> None:
    assert crowded.get("/v1/cache").status_code == 401


@pytest.mark.long
def test_a_dead_engine_is_said_in_the_shape_of_errors(checkpoint: Path) -> None:
    with running_server([str(checkpoint), *SHARED]) as server:
        core = core_of(server)
        core.suspend()
        try:
            with pytest.raises(httpx.ReadTimeout):
                httpx.get(f"{server.url}/v1/cache", timeout=2)
            started = time.monotonic()
            assert server.get("/metrics").status_code == 200
            assert time.monotonic() - started < 10
        finally:
            core.kill()
            core.resume()
        response = server.get("/v1/cache")
        assert response.status_code == 500
        assert response.json()["error"]["type"]
