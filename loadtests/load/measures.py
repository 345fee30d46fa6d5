"""What observations of one scenario under one arrival come to."""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from loadtests.load.observation import Objective, Observation

Spread = dict[str, float]
"""Seconds: mean, p50, p90 and p99; empty where nothing was seen."""


def spread(values: Iterable[float | None]) -> Spread:
    """Mean and percentiles of the values that are there."""
    present = np.array([value for value in values if value is not None], dtype=np.float64)
    if not present.size:
        return {}
    p50, p90, p99 = np.percentile(present, (50, 90, 99))
    return {"mean": float(present.mean()), "p50": float(p50), "p90": float(p90), "p99": float(p99)}


@dataclass(frozen=True, slots=True)
class Rates:
    """Requests and output tokens a second of those that were answered."""

    requests: float
    output_tokens: float

    @staticmethod
    def of(answered: Sequence[Observation], at_once: int) -> "Rates":
        """Answers that ended after the first `at_once` of them, over the time from there to the last.

        While the first ones run nothing can end yet, whatever the server's speed. Answers that end together
        do not make it faster than they were asked for. Where no more than the first ones ended, all of them
        over the time from the first start.
        """
        by_end = sorted(answered, key=lambda seen: seen.ended)
        begun, counted = by_end[:at_once], by_end[at_once:]
        starts = sorted(seen.started for seen in answered)
        if not counted:
            counted = begun
            seconds = by_end[-1].ended - starts[0] if by_end else 0.0
        else:
            seconds = max(by_end[-1].ended - begun[-1].ended, starts[-1] - starts[0])
        if seconds <= 0:
            return Rates(0.0, 0.0)
        return Rates(len(counted) / seconds, sum(seen.output_tokens for seen in counted) / seconds)


def hit_rate(answered: Sequence[Observation]) -> float | None:
    """Cached over prompt tokens by the answers' usage, None where no answer tells; silence means none."""
    if all(seen.cached_tokens is None for seen in answered):
        return None
    prompt = sum(seen.prompt_tokens for seen in answered)
    return sum(seen.cached_tokens or 0 for seen in answered) / prompt if prompt else None


def latencies(answered: Sequence[Observation]) -> dict[str, Spread]:
    """TTFT, TPOT (per request), ITL (per delta) and end to end."""
    return {
        "ttft": spread(seen.first_token for seen in answered),
        "tpot": spread(seen.per_token for seen in answered),
        "itl": spread(gap for seen in answered for gap in seen.gaps),
        "e2e": spread(seen.seconds for seen in answered),
    }


def measured(seen: Sequence[Observation], at_once: int, objective: Objective) -> dict[str, Any]:
    """JSON of everything that `seen` says; goodput's share is of all requests, failed ones included."""
    answered = [one for one in seen if one.error is None]
    kept = sum(objective.kept(one) for one in answered)
    rates = Rates.of(answered, at_once)
    parts = sorted({one.part for one in answered})
    return {
        "requests": len(answered),
        "errors": dict(sorted(Counter(one.error for one in seen if one.error is not None).items())),
        **latencies(answered),
        "requests_per_second": rates.requests,
        "output_tokens_per_second": rates.output_tokens,
        "goodput": {
            "objective": {"ttft_s": objective.first_token, "tpot_s": objective.per_token},
            "requests_per_second": rates.requests * kept / len(answered) if answered else 0.0,
            "share": kept / len(seen) if seen else 0.0,
        },
        "prompt_tokens": spread(one.prompt_tokens for one in answered),
        "parts": {part: _part([one for one in answered if one.part == part]) for part in parts},
    }


def _part(answered: Sequence[Observation]) -> dict[str, Any]:
    return {"requests": len(answered), **latencies(answered)}
