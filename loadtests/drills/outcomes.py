"""Whether every request that was sent has an outcome, and the metrics count each once."""

import time
from collections import Counter
from collections.abc import Sequence
from typing import Any

import httpx

from loadtests.drills.answer import Verdict
from loadtests.drills.attempt import Attempt
from loadtests.drills.check import Findings
from loadtests.drills.crowd import ends, wrong
from loadtests.drills.snapshot import Snapshot, settled
from loadtests.drills.watch import Watch

UNSEEN = "unseen"
"""The server has no record: the client left before its request was read."""

_READY = "ready"
_LATE_SECONDS = 3.0


def outcome_of(client: httpx.Client, response_id: str) -> str:
    """What became of a request, `UNSEEN` where the server knows none of that id."""
    response = client.get(f"/v1/requests/{response_id}")
    if response.status_code == httpx.codes.NOT_FOUND:
        return UNSEEN
    record: dict[str, Any] = response.raise_for_status().json()
    return str(record["outcome"])


def outcomes_of(client: httpx.Client, attempts: Sequence[Attempt]) -> Counter[str]:
    """How many of the requests ended how, as the server's records say; of its last thousand."""
    return Counter(outcome_of(client, each.response_id) for each in attempts)


def check_survival(
    findings: Findings, client: httpx.Client, before: Snapshot, attempts: Sequence[Attempt], watch: Watch
) -> None:
    """What holds for a server that lived through a drill: nothing is wrong, stuck, leaked or uncounted.

    At most a thousand attempts, the server's only ones since `before`. `watch` has ended.
    """
    settled(client)
    time.sleep(_LATE_SECONDS)  # a request that its client has left may be read late
    after = settled(client)
    found = outcomes_of(client, attempts)
    check_answers(findings, attempts)
    reached = len(attempts) - found[UNSEEN]
    left = sum(each.end == "left" for each in attempts)
    findings.check(
        "every request that reached the engine has an outcome",
        not found["running"] and found[UNSEEN] <= left,
        ", ".join(f"{count} {name}" for name, count in sorted(found.items())),
    )
    check_counted(findings, before, after, reached)
    check_idle(findings, after)
    findings.check("/ready said ready all the time", watch.seen == [_READY], watch)


def check_answers(findings: Findings, attempts: Sequence[Attempt]) -> None:
    """No answer is wrong, and every client saw an end."""
    judged = Counter[Verdict | None](each.verdict for each in attempts)
    findings.figures["requests"] = len(attempts)
    findings.figures["ends"] = ends(attempts)
    findings.check(
        "no answer is wrong",
        not wrong(attempts),
        "; ".join(wrong(attempts)[:3]) or f"{judged['equal']} equal, {judged['tied']} nearly tied",
    )
    stuck = [each.plan.ask.name for each in attempts if each.end == "stuck"]
    findings.check("no request is stuck", not stuck, "; ".join(stuck[:3]) or "0")


def check_counted(findings: Findings, before: Snapshot, after: Snapshot, reached: int) -> None:
    """As many outcomes were counted as requests reached the engine."""
    counted = sum(after.outcomes.values()) - sum(before.outcomes.values())
    findings.check("requests = outcomes", counted == reached, f"{reached} requests, {counted} outcomes")


def check_idle(findings: Findings, after: Snapshot) -> None:
    """Nothing runs any more, and no block is held."""
    findings.check("nothing runs, no block is in use", not after.busy, after.busy or "0")


def check_same(findings: Findings, found: dict[str, list[str]]) -> None:
    """Requests that were asked alone again got the answers of before."""
    bad = found.get("wrong", [])
    seen = ", ".join(f"{len(names)} {verdict}" for verdict, names in sorted(found.items()))
    findings.check("answers afterwards equal those before", not bad, "; ".join(bad[:3]) or seen)
