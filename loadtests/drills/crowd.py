"""Clients that ask a server all the time, in a thread of their own."""

import asyncio
import time
from collections import Counter
from collections.abc import Iterator, Sequence

import httpx

from loadtests.drills.attempt import PATIENCE, Attempt, Plan, attempt
from loadtests.drills.beside import Beside
from loadtests.drills.expected import Expected

_LOOK_SECONDS = 0.1
_PAUSE_SECONDS = 0.2


class Crowd(Beside):
    """`at_once` clients, each making the next of the plans once its last one ended, until the block ends.

    Where the plans come to an end, so do the clients. What is under way when the block ends is waited for.
    `attempts`: what has ended.
    """

    patience = 2 * PATIENCE

    def __init__(self, url: str, plans: Iterator[Plan], expected: Expected, at_once: int) -> None:
        super().__init__()
        self._url = url
        self._plans = plans
        self._expected = expected
        self._at_once = at_once
        self.attempts: list[Attempt] = []

    @property
    def asking(self) -> bool:
        """Whether any of the clients has not ended."""
        return self.working

    def wait_for(self, attempts: int, seconds: float = 600) -> None:
        """Return once so many have ended, no client is left, or the seconds are over."""
        deadline = time.monotonic() + seconds
        while len(self.attempts) < attempts and self.asking and time.monotonic() < deadline:
            time.sleep(_LOOK_SECONDS)

    def _work(self) -> None:
        asyncio.run(self._ask())

    async def _ask(self) -> None:
        limits = httpx.Limits(max_connections=None, max_keepalive_connections=self._at_once)
        async with (
            httpx.AsyncClient(base_url=self._url, timeout=PATIENCE, limits=limits) as client,
            asyncio.TaskGroup() as group,
        ):
            for _ in range(self._at_once):
                group.create_task(self._client(client))

    async def _client(self, client: httpx.AsyncClient) -> None:
        while not self.ending.is_set() and (plan := next(self._plans, None)) is not None:
            ended = await attempt(client, plan, self._expected)
            self.attempts.append(ended)
            if ended.end in ("broken", "refused"):  # a dead server would be asked thousands of times
                await asyncio.sleep(_PAUSE_SECONDS)


def ends(attempts: Sequence[Attempt]) -> dict[str, int]:
    """How many ended how."""
    return dict(Counter(each.end for each in attempts))


def wrong(attempts: Sequence[Attempt]) -> list[str]:
    """Each wrong answer, and what is wrong with it."""
    return [f"{each.plan.ask.name}: {each.why}" for each in attempts if each.verdict == "wrong"]
