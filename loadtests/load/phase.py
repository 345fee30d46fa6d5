"""One scenario under one arrival, run by the load tool."""

import asyncio
import math
import time
from collections.abc import AsyncIterator, Callable, Iterator
from dataclasses import dataclass
from itertools import count

from guidellm.scheduler import (
    AsyncConstantStrategy,
    AsyncPoissonStrategy,
    ConcurrentStrategy,
    NonDistributedEnvironment,
    Scheduler,
    SchedulerState,
    SchedulerUpdateAction,
    SchedulingStrategy,
)
from guidellm.scheduler.schemas.conversation_graph import (
    GenerativeConversationGraph,
    GenerativeConversationNode,
)
from guidellm.schemas import GenerationRequest, GenerationResponse, RequestInfo
from guidellm.schemas.backends import OpenAIHTTPBackendArgs
from guidellm.settings import settings

from loadtests.load.arrival import MOST_IN_FLIGHT, Arrival
from loadtests.load.backend import BODY, NUMBER, PART, Backend, observation
from loadtests.load.observation import Observation
from loadtests.load.scenarios import Ask
from loadtests.load.target import Target

# One process sends thousands of deltas a second; the tool's workers would each draw the same Poisson gaps.
settings.max_worker_processes = 1
_READ_TIMEOUT = 600.0
# A server that cannot bear the rate is not waited for much longer than the load lasted.
_DRAIN_SECONDS = 30.0
_LEAST_REQUESTS = 3

Asks = Callable[[int], Ask]


@dataclass(frozen=True, slots=True)
class Extent:
    """How much is asked: `warm_up` requests, then `requests`, or as many as come in `seconds` in all."""

    warm_up: int
    seconds: float
    requests: int | None = None

    def total(self, arrival: Arrival) -> int | None:
        """How many requests there will be, None where the server's speed decides."""
        if self.requests is not None:
            return self.warm_up + self.requests
        if not arrival.open or arrival.value is None:
            return None
        return max(math.ceil(arrival.value * self.seconds), self.warm_up + _LEAST_REQUESTS)


@dataclass(slots=True)
class _Clock:
    """The tool's constraint: when no more is asked, and when nothing more is waited for.

    However long they take, `least` requests are asked.
    """

    asking: float
    waiting: float
    least: int
    stopping: asyncio.Event

    def __call__(self, state: SchedulerState, request: RequestInfo | None) -> SchedulerUpdateAction:
        elapsed = time.time() - state.start_time
        stopped = self.stopping.is_set()
        enough = stopped or (elapsed >= self.asking and state.created_requests >= self.least)
        done = enough and state.processed_requests >= state.created_requests
        return SchedulerUpdateAction(
            request_queuing="stop" if enough else "continue",
            request_processing="stop_all" if stopped or done or elapsed >= self.waiting else "continue",
        )


async def run(
    target: Target, arrival: Arrival, extent: Extent, asks: Asks, seed: int, stopping: asyncio.Event
) -> AsyncIterator[tuple[Observation, float]]:
    """Each request as it ends, with the share of the phase that is over; numbers count from 0.

    Those below `extent.warm_up` are the warm-up. When `stopping` is set, requests in flight are given up
    and left out. `seed` decides Poisson arrivals.
    """
    total = extent.total(arrival)
    asking = math.inf if total is not None else extent.seconds
    waiting = math.inf
    if arrival.open and extent.requests is None:
        waiting = 2 * extent.seconds + _DRAIN_SECONDS
    began = time.time()
    ended = 0
    scheduler: Scheduler[GenerationRequest, GenerationResponse] = Scheduler()
    updates = scheduler.run(
        requests=_graphs(asks, total),
        backend=_backend(target),
        strategy=_strategy(arrival, seed),
        env=NonDistributedEnvironment(),
        clock=_Clock(asking, waiting, extent.warm_up + _LEAST_REQUESTS, stopping),
    )
    try:
        async for response, request, info, _ in updates:
            if info.status not in ("completed", "errored", "cancelled"):
                continue
            seen = observation(request, info, response)
            if seen is None or (stopping.is_set() and info.status == "cancelled"):
                continue
            ended += 1
            share = (time.time() - began) / extent.seconds if total is None else ended / total
            yield seen, min(share, 1.0)
    except RuntimeError:
        # A worker that is interrupted while it starts fails instead.
        if not stopping.is_set():
            raise


def _graphs(asks: Asks, total: int | None) -> Iterator[GenerativeConversationGraph]:
    for number in count() if total is None else range(total):
        ask = asks(number)
        request = GenerationRequest(columns={BODY: [ask.body], PART: [ask.part], NUMBER: [number]})
        node = GenerativeConversationNode(node_id="0", agent_id="0", request=request)
        yield GenerativeConversationGraph.from_nodes_with_parents({"0": node}, {})


def _backend(target: Target) -> Backend:
    arguments = OpenAIHTTPBackendArgs.model_validate(
        {
            "target": target.url,
            "model": target.model,
            "request_format": target.endpoint,
            "api_key": target.api_key,
            "timeout": _READ_TIMEOUT,
            "validate_backend": False,  # servers without /health are measured too
        }
    )
    return Backend(arguments)


def _strategy(arrival: Arrival, seed: int) -> SchedulingStrategy:
    if arrival.value is None:
        raise ValueError(f"the rate of {arrival} is not known yet")
    match arrival.kind:
        case "concurrency":
            return ConcurrentStrategy(streams=int(arrival.value))
        case "constant":
            return AsyncConstantStrategy(rate=arrival.value, max_concurrency=MOST_IN_FLIGHT)
        case "poisson":
            return AsyncPoissonStrategy(rate=arrival.value, max_concurrency=MOST_IN_FLIGHT, random_seed=seed)
