"""What a request asked for, carried from the endpoint to the one door all endpoints share."""

import asyncio
import time
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Any, Protocol

from server.fields import QGPMFields
from server.locate import Source
from server.request_record import Outcome
from server.rope_choice import Wish

_current: ContextVar["Intent | None"] = ContextVar("ropeway_intent", default=None)


class Run(Protocol):
    """A prompt's run that can be given up before it starts."""

    def abandon(self, outcome: Outcome) -> None:
        """Record that the run will not start."""


@dataclass(slots=True)
class Intent:
    """One request's wishes.

    `rope`: the rule that it asked for, None for the server's default. `holder`: whose API key it came with,
    None without a valid one. `arrival` in seconds since the epoch; `began` is that moment by the monotonic
    clock, since the other may jump. `numbered`: the endpoint numbers its
    prompts behind the response's id. `preparing` are the prompts' preparations, which run before any engine
    work; `runs` those of their runs that have not ended, by identity.
    """

    fields: QGPMFields
    source: Source
    rope: Wish | None
    max_tokens_given: bool
    numbered: bool
    holder: bytes | None = None
    arrival: float = field(default_factory=time.time)
    began: float = field(default_factory=time.monotonic)
    preparing: list[asyncio.Task[Any]] = field(default_factory=list)
    runs: dict[int, Run] = field(default_factory=dict)
    _begun: bool = field(default=False)

    def response_id(self, request_id: str) -> str:
        """The id of the OpenAI response that a prompt's request belongs to."""
        return request_id.rpartition("-")[0] if self.numbered else request_id

    async def prepared(self) -> None:
        """Wait for every prompt of the body; raises the first error, so that a bad prompt costs no other."""
        await asyncio.gather(*self.preparing)

    def enter(self, run: Run) -> bool:
        """Know a run until it ends; whether it is the request's first."""
        first, self._begun = not self._begun, True
        self.runs[id(run)] = run
        return first

    def leave(self, run: Run) -> None:
        """Forget a run: each knows the other, and would wait with all texts for a full garbage collection."""
        self.runs.pop(id(run), None)

    def abandon(self, outcome: Outcome) -> None:
        """Give up what has not started."""
        for run in list(self.runs.values()):
            run.abandon(outcome)


@contextmanager
def carrying(intent: Intent) -> Iterator[None]:
    """Let the engine client see the intent in this context."""
    token = _current.set(intent)
    try:
        yield
    finally:
        _current.reset(token)


def current_intent() -> Intent | None:
    """The intent of the request that is being handled, None on endpoints without our fields."""
    return _current.get()
