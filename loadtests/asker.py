"""The arms of measurements: what is sent, and what is timed of it."""

import asyncio
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import httpx

from loadtests.pairs import Arm, Quantities
from loadtests.stages import stage_seconds
from loadtests.stream import Timing, stream
from loadtests.workload import Ask, Workload

REUSE_TOKENS = 4


def hit_rate(timings: Sequence[Timing]) -> float:
    """Cached tokens over prompt tokens."""
    prompt = sum(timing.prompt_tokens for timing in timings)
    return sum(timing.cached_tokens for timing in timings) / prompt if prompt else 0.0


@dataclass(slots=True)
class Asker:
    """Sends requests; `timings` are of those that should hit nothing in the prefix cache."""

    client: httpx.AsyncClient
    workload: Workload
    timings: list[Timing] = field(default_factory=list)

    async def ask(self, url: str, body: dict[str, Any]) -> Timing:
        """One streamed request."""
        timing = await stream(self.client, url, body)
        self.timings.append(timing)
        return timing

    def single(self, url: str, tokens: int, max_tokens: int, ask: Ask = "plain") -> Arm:
        """An arm of one request: its TTFT, time per token, and where it is not plain its stages."""

        async def run(number: int) -> Quantities:
            timing = await self.ask(url, self.workload.body(tokens, number, max_tokens, ask))
            found = {"ttft": timing.first_token, "per_token": timing.per_token}
            if ask == "plain":
                return found
            return found | await stage_seconds(self.client, url, timing.request_id, timing.first_token)

        return run

    def plain_for_reuse(self, url: str, tokens: int) -> Arm:
        """An arm of one plain request on a cold cache, to set beside `questions`."""

        async def run(number: int) -> Quantities:
            timing = await self.ask(url, self.workload.body(tokens, number, REUSE_TOKENS))
            return {"question": timing.first_token, "again": timing.first_token}

        return run

    def questions(self, url: str, tokens: int) -> Arm:
        """An arm that asks one document a question of its own with QGPM, then the same again: their TTFT.

        The document is read plainly before, where other requests have taken its place in the cache.
        """

        async def run(number: int) -> Quantities:
            await self.ask(url, self.workload.reading(tokens))
            body = self.workload.question(number, tokens, REUSE_TOKENS)
            first = await stream(self.client, url, body)
            again = await stream(self.client, url, body)
            return {"question": first.first_token, "again": again.first_token}

        return run

    def crowd(self, url: str, requests: int, tokens: int, max_tokens: int) -> Arm:
        """An arm of concurrent requests: seconds until the last one is done."""

        async def run(number: int) -> Quantities:
            bodies = [self.workload.body(tokens, requests * number + i, max_tokens) for i in range(requests)]
            started = time.perf_counter()
            await asyncio.gather(*(self.ask(url, body) for body in bodies))
            return {"seconds": time.perf_counter() - started}

        return run
