"""The numbers of `GET /v1/cache` as metrics, read from the engine when they are scraped."""

import asyncio
from collections.abc import Iterator
from contextlib import suppress
from typing import Any

from fastapi import FastAPI
from prometheus_client import REGISTRY
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector
from starlette.types import ASGIApp, Receive, Scope, Send
from vllm.v1.engine.exceptions import EngineDeadError

from server.cache_account import CacheAccount

_SCRAPE_SECONDS = 2.0
_PATH = "/metrics"


class CacheCollector(Collector):
    """The metrics of the last description; none before the first."""

    def __init__(self) -> None:
        self.described: dict[str, Any] | None = None

    def collect(self) -> Iterator[Metric]:
        """`ropeway_cache_…`."""
        if self.described is None:
            return
        yield _bytes(self.described["pools"])
        yield GaugeMetricFamily(
            "ropeway_cache_capacity_tokens",
            "Tokens of requests of the model's length that the cache holds at once.",
            self.described["capacity_tokens"],
        )
        hits = CounterMetricFamily(
            "ropeway_cache_hit_tokens",
            "Prompt tokens found in the cache when a request was first scheduled, by kind of request.",
            labels=("kind",),
        )
        for kind, tokens in self.described["hit_tokens"].items():
            hits.add_metric((kind,), tokens)
        yield hits
        yield CounterMetricFamily(
            "ropeway_cache_evicted_blocks",
            "Cached blocks that were given to another request.",
            self.described["evicted_blocks"],
        )


def _bytes(pools: list[dict[str, Any]]) -> Metric:
    family = GaugeMetricFamily(
        "ropeway_cache_bytes",
        "Memory of a pool by state; free and reserved belong to no group. All states make up the pool.",
        labels=("pool", "group", "state"),
    )
    for pool in pools:
        for group in pool["groups"]:
            for state in ("used", "cached"):
                family.add_metric((pool["name"], group["name"], state), group[f"bytes_{state}"])
        for state in ("free", "reserved"):
            family.add_metric((pool["name"], "", state), pool[f"bytes_{state}"])
    return family


class FreshMetrics:
    """A route's ASGI app whose collector has just been told how things stand.

    An engine that does not answer in time, or is dead, leaves the last numbers.
    """

    def __init__(self, app: ASGIApp, account: CacheAccount, collector: CacheCollector) -> None:
        self._app = app
        self._account = account
        self._collector = collector

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Ask the engine, then serve as before."""
        with suppress(TimeoutError, EngineDeadError):
            self._collector.described = await asyncio.wait_for(self._account.read(), _SCRAPE_SECONDS)
        await self._app(scope, receive, send)


def keep_fresh(app: FastAPI, account: CacheAccount) -> None:
    """Add the metrics to vLLM's `/metrics`; raises LookupError where there is no such route."""
    collector = CacheCollector()
    REGISTRY.register(collector)
    routes = [route for route in app.routes if getattr(route, "path", None) == _PATH]
    if not routes:
        raise LookupError(f"vLLM serves no {_PATH}")
    for route in routes:
        route.app = FreshMetrics(route.app, account, collector)  # type: ignore[attr-defined]
