"""The right answers of a pool of requests: what each gets alone, on a cold cache."""

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import count
from typing import Any

import httpx

from loadtests.drills.answer import Answer, Row, Verdict, nearly_tied
from loadtests.drills.ask import Ask

_numbers = count()


@dataclass(frozen=True, slots=True)
class Right:
    """The right answer to a request, its most relevant sentences, and the seconds it took."""

    answer: Answer
    top: Sequence[Row]
    seconds: float


@dataclass(frozen=True, slots=True)
class Expected:
    """Right answers by the name of their request."""

    by_name: Mapping[str, Right]
    near: float

    @staticmethod
    def of(client: httpx.Client, asks: Sequence[Ask], near: float) -> "Expected":
        """Ask each alone; nothing else may run. Raises httpx.HTTPError."""
        return Expected({ask.name: _alone(client, ask) for ask in asks}, near)

    def again(self, client: httpx.Client, asks: Sequence[Ask]) -> dict[str, list[str]]:
        """Ask each alone again: the names by verdict, each with what differs."""
        found: dict[str, list[str]] = {}
        for ask in asks:
            one = _alone(client, ask)
            verdict, why = self.judge(ask, one.answer, one.top)
            found.setdefault(verdict, []).append(f"{ask.name}: {why}")
        return found

    def judge(self, ask: Ask, answer: Answer, top: Sequence[Row]) -> tuple[Verdict, str]:
        """Whether an answer is right; `top` of its record excuses one whose sentences were nearly tied."""
        right = self.by_name[ask.name]
        verdict, why = answer.compared(right.answer, self.near)
        if verdict == "wrong" and nearly_tied(top, right.top, self.near):
            return "tied", why
        return verdict, why


def fresh(name: str) -> str:
    """An id, or a salt, that nothing had before."""
    return f"{name.replace(' ', '-').replace(',', '')}-{next(_numbers)}-{time.time_ns():x}"


def top_of(record: Mapping[str, Any]) -> Sequence[Row]:
    """The most relevant sentences that a record names."""
    top: Sequence[Row] = record["top"]
    return top


def _alone(client: httpx.Client, ask: Ask) -> Right:
    name = fresh(ask.name)
    started = time.monotonic()
    response = client.post(ask.path, json=ask.body(name, salt=name)).raise_for_status()
    seconds = time.monotonic() - started
    record = client.get(f"/v1/requests/{ask.response_id(name)}").raise_for_status().json()
    return Right(Answer.read(response.json()), top_of(record), seconds)
