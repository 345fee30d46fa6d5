"""One request of a crowd, and how it ended for its client."""

import asyncio
import json
import time
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass
from http import HTTPStatus
from typing import Any, Literal

import httpx

from loadtests.drills.answer import Answer, Verdict
from loadtests.drills.ask import Ask
from loadtests.drills.expected import Expected, fresh, top_of

PATIENCE = 480.0
"""Seconds after which a request counts as stuck."""

End = Literal["answered", "refused", "broken", "left", "stuck"]


@dataclass(frozen=True, slots=True)
class Plan:
    """A request to make: as a stream or not, and the seconds after which its client leaves (None: never).

    `salt`: its `cache_salt`. `key`: its API key.
    """

    ask: Ask
    stream: bool = False
    leave: float | None = None
    salt: str | None = None
    key: str | None = None


@dataclass(frozen=True, slots=True)
class Attempt:
    """How a request ended; `response_id`: its name in `GET /v1/requests/{id}`.

    `verdict` and `why`: of what was answered. `broken`: the connection or the stream ended early, or in an
    error.
    """

    plan: Plan
    response_id: str
    started: float
    seconds: float
    end: End
    why: str = ""
    verdict: Verdict | None = None
    answer: Answer | None = None


class _BrokenError(RuntimeError):
    """A stream that told an error."""


async def attempt(client: httpx.AsyncClient, plan: Plan, expected: Expected) -> Attempt:
    """Make a request; whatever happens to it is an end."""
    name = fresh(plan.ask.name)
    response_id = plan.ask.response_id(name)
    started = time.monotonic()
    end, why, verdict, answer = await _ended(client, plan, name, expected)
    return Attempt(plan, response_id, started, time.monotonic() - started, end, why, verdict, answer)


async def _ended(
    client: httpx.AsyncClient, plan: Plan, name: str, expected: Expected
) -> tuple[End, str, Verdict | None, Answer | None]:
    try:
        async with asyncio.timeout(PATIENCE if plan.leave is None else plan.leave):
            status, chunks = await _asked(client, plan, name)
        if status != HTTPStatus.OK:
            return "refused", f"{status}: {json.dumps(chunks)[:300]}", None, None
        answer = Answer.join(chunks)
        verdict, why = expected.judge(plan.ask, answer, ())
        if verdict == "wrong":
            record = await client.get(f"/v1/requests/{plan.ask.response_id(name)}", headers=_headers(plan))
            verdict, why = expected.judge(plan.ask, answer, top_of(record.raise_for_status().json()))
        if verdict == "wrong" and answer.finish in ("abort", "error"):
            return "broken", f"finish_reason {answer.finish}", None, None
        return "answered", why, verdict, answer
    except TimeoutError:
        return ("stuck" if plan.leave is None else "left"), "", None, None
    except (httpx.HTTPError, _BrokenError, json.JSONDecodeError) as error:
        return "broken", f"{type(error).__name__}: {error}", None, None


async def _asked(client: httpx.AsyncClient, plan: Plan, name: str) -> tuple[int, list[Mapping[str, Any]]]:
    body = plan.ask.body(name, stream=plan.stream, salt=plan.salt)
    async with client.stream("POST", plan.ask.path, json=body, headers=_headers(plan)) as response:
        if plan.stream and response.is_success:
            return response.status_code, [chunk async for chunk in _chunks(response)]
        return response.status_code, [json.loads(await response.aread())]


async def _chunks(response: httpx.Response) -> AsyncIterator[Mapping[str, Any]]:
    done = False
    async for line in response.aiter_lines():
        data = line.removeprefix("data: ")
        if data == "[DONE]":
            done = True
        elif data:
            chunk = json.loads(data)
            if "error" in chunk:
                raise _BrokenError(str(chunk["error"]))
            yield chunk
    if not done:
        raise _BrokenError("the stream ended without [DONE]")


def _headers(plan: Plan) -> dict[str, str]:
    return {} if plan.key is None else {"Authorization": f"Bearer {plan.key}"}
