"""Where the time to the first token of a QGPM request goes."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import httpx

STAGES = ("locate", "score", "collect", "maps", "answer", "other")
"""In the order in which they happen.

`score` is without `collect`, which a record counts into it. `maps` makes the coordinates that the request
carries; the rows that a worker computes of them, step by step, are a part of `answer`.
"""


@dataclass(frozen=True, slots=True)
class Stage:
    """One stage of requests of so many prompt tokens: mean seconds over `count` requests.

    `share` of their mean time to the first token.
    """

    tokens: int
    stage: str
    seconds: float
    share: float
    count: int


async def stage_seconds(
    client: httpx.AsyncClient, url: str, request_id: str, ttft: float
) -> dict[str, float]:
    """The stages of a request, from its record; raises httpx.HTTPStatusError for an unknown id."""
    response = await client.get(f"{url}/v1/requests/{request_id}")
    response.raise_for_status()
    return split(response.json()["seconds"], ttft)


def split(recorded: Mapping[str, float], ttft: float) -> dict[str, float]:
    """A record's seconds as stages that follow each other and sum to the caller's time to the first token.

    `other` is what no stage counts: the way over HTTP, rendering and tokenizing, the event loop.
    """
    seconds = {stage: recorded.get(stage, 0.0) for stage in STAGES[:-1]}
    seconds["score"] -= seconds["collect"]
    return {**seconds, "other": ttft - sum(seconds.values())}


def profile(tokens: int, requests: Sequence[Mapping[str, float]]) -> list[Stage]:
    """Each stage over requests of so many prompt tokens, as `split` told them apart; at least one request."""
    count = len(requests)
    means = {stage: sum(request[stage] for request in requests) / count for stage in STAGES}
    total = sum(means.values())
    return [Stage(tokens, stage, seconds, seconds / total, count) for stage, seconds in means.items()]
