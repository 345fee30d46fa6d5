"""The file that a load test left, as far as the report reads it."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated

from pydantic import BeforeValidator, with_config

from loadtests.results.file_format import ONLY_WHAT_IS_READ, Setting


@with_config(ONLY_WHAT_IS_READ)
@dataclass(frozen=True, slots=True)
class Spread:
    """Of a time in seconds."""

    mean: float
    p50: float
    p90: float
    p99: float


MaybeSpread = Annotated[Spread | None, BeforeValidator(lambda spread: spread or None)]
"""None, in a file also {}, where nothing was answered."""


@with_config(ONLY_WHAT_IS_READ)
@dataclass(frozen=True, slots=True)
class Arrival:
    """How requests arrive: `rate` a second, or `concurrency` at a time."""

    kind: str
    rate: float | None = None
    concurrency: int | None = None

    def __str__(self) -> str:
        if self.concurrency is not None:
            return f"{self.concurrency} at a time"
        return self.kind if self.rate is None else f"{self.kind}, {self.rate:.3g}/s"


@with_config(ONLY_WHAT_IS_READ)
@dataclass(frozen=True, slots=True)
class Objective:
    """What an answer must keep to count as good: seconds to the first token, seconds a token after it."""

    ttft_s: float
    tpot_s: float


@with_config(ONLY_WHAT_IS_READ)
@dataclass(frozen=True, slots=True)
class Goodput:
    """Requests a second that kept the objective, and their share of all that were sent."""

    objective: Objective
    requests_per_second: float
    share: float


@with_config(ONLY_WHAT_IS_READ)
@dataclass(frozen=True, slots=True)
class Pool:
    """Bytes of one pool of a server's cache: those that hold something, and all."""

    held: int
    total: int


@with_config(ONLY_WHAT_IS_READ)
@dataclass(frozen=True, slots=True)
class Skipped:
    """A scenario that was left out, and why."""

    name: str
    reason: str


@with_config(ONLY_WHAT_IS_READ)
@dataclass(frozen=True, slots=True)
class Part:
    """The requests of one kind in a scenario."""

    requests: int
    ttft: MaybeSpread
    tpot: MaybeSpread
    e2e: MaybeSpread


@with_config(ONLY_WHAT_IS_READ)
@dataclass(frozen=True, slots=True)
class Scenario:
    """One scenario under one arrival."""

    name: str
    arrival: Arrival
    requests: int
    errors: Mapping[str, int]
    warm_up: Setting
    ttft: MaybeSpread
    tpot: MaybeSpread
    itl: MaybeSpread
    e2e: MaybeSpread
    output_tokens_per_second: float
    requests_per_second: float
    goodput: Goodput
    hit_rate: float | None
    cache_bytes: Mapping[str, Pool] | None
    parts: Mapping[str, Part]

    @property
    def label(self) -> str:
        """The scenario and its arrival, for people."""
        return f"{self.name}, {self.arrival}"

    @property
    def failed(self) -> int:
        """How many requests were not answered."""
        return sum(self.errors.values())


@with_config(ONLY_WHAT_IS_READ)
@dataclass(frozen=True, slots=True)
class Load:
    """Requests that arrive as users' do."""

    setting: Setting
    interrupted: bool
    skipped: tuple[Skipped, ...]
    scenarios: tuple[Scenario, ...]
