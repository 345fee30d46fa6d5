"""Whether every request that was sent has an outcome, and the metrics count each once."""

import time
from collections import Counter
from collections.abc import Sequence

import httpx

from loadtests.drills.answer import Verdict
from loadtests.drills.attempt import Attempt
from loadtests.drills.check import Findings
from loadtests.drills.crowd import ends, wrong
from loadtests.drills.ledger import UNSEEN, Ledger
from loadtests.drills.snapshot import Snapshot, settled
from loadtests.drills.watch import Watch

_READY = "ready"
_LATE_SECONDS = 3.0


def check_survival(
    findings: Findings,
    client: httpx.Client,
    before: Snapshot,
    attempts: Sequence[Attempt],
    watch: Watch,
    ledger: Ledger | None = None,
) -> None:
    """What holds for a server that lived through a drill: nothing is wrong, stuck, leaked or uncounted.

    `attempts` are the server's only ones since `before`; where they are more than a thousand, `ledger` has
    read them as they came. `watch` has ended.
    """
    ledger = ledger or Ledger(client)
    settled(client)
    time.sleep(_LATE_SECONDS)  # a request that its client has left may be read late
    after = settled(client)
    ledger.read(attempts, last=True)
    answered = sum(each.end == "answered" for each in attempts)
    left = sum(each.end == "left" for each in attempts)
    reached = len(attempts) - ledger.outcomes[UNSEEN]
    check_answers(findings, attempts)
    findings.check(
        "every request that reached the engine has an outcome",
        not ledger.outcomes["running"] and ledger.outcomes[UNSEEN] <= left,
        ", ".join([f"{answered} answered", *(f"{n} {name}" for name, n in sorted(ledger.outcomes.items()))]),
    )
    counted = {name: after.outcomes[name] - count for name, count in before.outcomes.items()}
    findings.check(
        "requests = outcomes",
        sum(counted.values()) == reached,
        f"{reached} requests, {sum(counted.values())} outcomes",
    )
    findings.check(
        "every answer was counted as a success",
        counted["success"] == answered + ledger.outcomes["success"],
        f"{answered} answers, {ledger.outcomes['success']} that nobody waited for, "
        f"{counted['success']} successes",
    )
    failed = {name: counted[name] for name in ("error", "rejected") if counted[name]}
    findings.check("no request failed or was rejected", not failed, failed or "0")
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


def check_idle(findings: Findings, after: Snapshot) -> None:
    """Nothing runs any more, and no block is held."""
    findings.check("nothing runs, no block is in use", not after.busy, after.busy or "0")


def check_same(findings: Findings, found: dict[str, list[str]]) -> None:
    """Requests that were asked alone again got the answers of before."""
    bad = found.get("wrong", [])
    seen = ", ".join(f"{len(names)} {verdict}" for verdict, names in sorted(found.items()))
    findings.check("answers afterwards equal those before", not bad, "; ".join(bad[:3]) or seen)
