"""The measurements: which two requests make a pair, and what is compared of them."""

import asyncio
import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import httpx

from loadtests.ratios import AtMost, Ratio, Verdict, Within
from loadtests.stream import Timing, stream
from loadtests.workload import Workload

Quantities = dict[str, float]
"""Seconds by the name of what took them."""

Arm = Callable[[int], Awaitable[Quantities]]

# A server that has just answered still spins on its cores for a moment, which the next one would pay for.
SETTLING_SECONDS = 1.5
REUSE_TOKENS = 4


@dataclass(frozen=True, slots=True)
class Line:
    """One promise: a quantity of `measured`, as a ratio to the same of `baseline`."""

    name: str
    quantity: str
    promise: Within | AtMost


@dataclass(slots=True)
class Measurement:
    """Two arms that are measured in turns; each call of an arm is told the pair's number."""

    name: str
    baseline: Arm
    measured: Arm
    lines: Sequence[Line]
    pairs: list[tuple[Quantities, Quantities]] = field(default_factory=list)

    async def warm_up(self, number: int) -> None:
        """Run both arms once, for nothing."""
        await self.baseline(number)
        await self.measured(number)

    async def add_pair(self, number: int) -> None:
        """Measure both arms; the order alternates from pair to pair."""
        if number % 2:
            measured = await _settled(self.measured, number)
            self.pairs.append((await _settled(self.baseline, number), measured))
        else:
            baseline = await _settled(self.baseline, number)
            self.pairs.append((baseline, await _settled(self.measured, number)))

    def results(self) -> list["Result"]:
        """What the pairs say of each line."""
        return [Result.of(line, self.pairs) for line in self.lines]


async def _settled(arm: Arm, number: int) -> Quantities:
    await asyncio.sleep(SETTLING_SECONDS)
    return await arm(number)


@dataclass(frozen=True, slots=True)
class Result:
    """One line with its numbers; `pairs` are (baseline, measured) in seconds."""

    line: Line
    ratio: Ratio
    verdict: Verdict
    pairs: tuple[tuple[float, float], ...]

    @staticmethod
    def of(line: Line, pairs: Sequence[tuple[Quantities, Quantities]]) -> "Result":
        """The line's ratio and verdict."""
        values = tuple((a[line.quantity], b[line.quantity]) for a, b in pairs)
        ratio = Ratio.of_pairs(values)
        return Result(line, ratio, line.promise.verdict(ratio), values)


@dataclass(slots=True)
class Asker:
    """Sends requests; counts what those hit in the prefix cache that should hit nothing."""

    client: httpx.AsyncClient
    workload: Workload
    timings: list[Timing] = field(default_factory=list)

    @property
    def hit_rate(self) -> float:
        """Cached tokens over prompt tokens of everything that was asked."""
        prompt = sum(timing.prompt_tokens for timing in self.timings)
        return sum(timing.cached_tokens for timing in self.timings) / prompt if prompt else 0.0

    async def ask(self, url: str, body: dict[str, Any]) -> Timing:
        """One streamed request."""
        timing = await stream(self.client, url, body)
        self.timings.append(timing)
        return timing

    def single(self, url: str, tokens: int, max_tokens: int, qgpm: bool = False) -> Arm:
        """An arm of one request: its TTFT and, where more than one token is asked for, time per token."""

        async def run(number: int) -> Quantities:
            body = self.workload.body(tokens, number, max_tokens, qgpm)
            timing = await self.ask(url, body)
            return {"ttft": timing.first_token, "per_token": timing.per_token}

        return run

    def plain_for_reuse(self, url: str, tokens: int) -> Arm:
        """An arm of one plain request on a cold cache, to set beside `questions`."""

        async def run(number: int) -> Quantities:
            timing = await self.ask(url, self.workload.body(tokens, number, REUSE_TOKENS))
            return {"question": timing.first_token, "again": timing.first_token}

        return run

    def questions(self, url: str, tokens: int) -> Arm:
        """An arm that asks one document a question of its own with QGPM, then the same again: their TTFT."""

        async def run(number: int) -> Quantities:
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


def measurements(
    asker: Asker, stock: str, ropeway: str, plain_tokens: int, lengths: Sequence[int], max_tokens: int
) -> list[Measurement]:
    """All measurements on the servers at the two addresses; `lengths` are QGPM's prompt lengths in tokens."""
    return [
        Measurement(
            "plain",
            asker.single(stock, plain_tokens, max_tokens),
            asker.single(ropeway, plain_tokens, max_tokens),
            [
                Line(f"plain TTFT, {plain_tokens:,} tokens / stock", "ttft", Within()),
                Line("plain time per token / stock", "per_token", Within()),
            ],
        ),
        Measurement(
            "throughput",
            asker.crowd(stock, 8, 200, max_tokens),
            asker.crowd(ropeway, 8, 200, max_tokens),
            [Line("plain throughput, 8 at a time / stock", "seconds", Within())],
        ),
        *(_qgpm(asker, ropeway, tokens, max_tokens, first=tokens == lengths[0]) for tokens in lengths),
        Measurement(
            f"reuse {lengths[-1]}",
            asker.plain_for_reuse(ropeway, lengths[-1]),
            asker.questions(ropeway, lengths[-1]),
            [
                Line(f"another QGPM question, {lengths[-1]:,} tokens / plain", "question", AtMost(1.25)),
                Line("the same QGPM question again / plain", "again", AtMost(0.35)),
            ],
        ),
    ]


def _qgpm(asker: Asker, url: str, tokens: int, max_tokens: int, first: bool) -> Measurement:
    """QGPM against plain on one server; time per token at the first length only."""
    output = max_tokens if first else min(max_tokens, 8)
    lines = [Line(f"QGPM TTFT, {tokens:,} tokens / plain", "ttft", AtMost(2.1))]
    if first:
        lines.append(Line("QGPM time per token / plain", "per_token", Within()))
    return Measurement(
        f"qgpm {tokens}",
        asker.single(url, tokens, output),
        asker.single(url, tokens, output, qgpm=True),
        lines,
    )
