"""Two clients with an API key and a cache salt each, asking the same at the same time."""

from collections.abc import Iterator, Mapping, Sequence
from itertools import cycle

import httpx

from loadtests.drills.ask import Ask, pool, tokens_per_sentence
from loadtests.drills.attempt import Attempt, Plan
from loadtests.drills.check import Drill, Findings, Say
from loadtests.drills.crowd import Crowd
from loadtests.drills.expected import Expected
from loadtests.drills.outcomes import check_same, check_survival
from loadtests.drills.snapshot import Snapshot
from loadtests.drills.subject import BLOCK, Subject
from loadtests.drills.watch import Watch

_TENANTS = {
    "first": ("key-of-the-first", "salt of the first"),
    "second": ("key-of-the-second", "salt of the second"),
}
_ASKED = 24
_ROUNDS = 3
_AT_ONCE = 3


def run(subject: Subject, sizes: Mapping[str, float], say: Say) -> Findings:
    """Both ask every request of the pool in turn, several times; each finds only what itself has left."""
    findings = Findings()
    keys = [key for key, _ in _TENANTS.values()]
    headers = {"Authorization": f"Bearer {keys[0]}"}
    with (
        subject.serve("--api-key", *keys) as server,
        httpx.Client(base_url=server.url, timeout=300, headers=headers) as client,
    ):
        # Of one document each: what is cached of a request is then of that request alone.
        asks = [
            ask for number, ask in enumerate(pool(tokens_per_sentence(client), _ASKED)) if number % 3 != 1
        ]
        say("right answers")
        expected = Expected.of(client, asks, subject.near)
        before = Snapshot.read(client)
        say("two clients at the same time")
        with (
            Watch(server.url) as watch,
            Crowd(server.url, _plans(asks, *_TENANTS["first"]), expected, _AT_ONCE) as one,
            Crowd(server.url, _plans(asks, *_TENANTS["second"]), expected, _AT_ONCE) as other,
        ):
            total = _ROUNDS * len(asks)
            one.wait_for(total)
            other.wait_for(total)
        check_survival(findings, client, before, [*one.attempts, *other.attempts], watch)
        for name, crowd in (("first", one), ("second", other)):
            _check_own(findings, client, name, crowd.attempts)
        check_same(findings, expected.again(client, asks))
        refused = httpx.get(f"{server.url}/v1/models", headers={"Authorization": "Bearer key-of-nobody"})
        findings.check("a key of nobody is refused", refused.status_code == 401, refused.status_code)
    return findings


def _plans(asks: Sequence[Ask], key: str, salt: str) -> Iterator[Plan]:
    streams = cycle((False, True))
    for _ in range(_ROUNDS):
        for ask in asks:
            yield Plan(ask, stream=next(streams), salt=salt, key=key)


def _check_own(findings: Findings, client: httpx.Client, name: str, attempts: Sequence[Attempt]) -> None:
    """The first of each request finds nothing that the other client left, and later ones find their own."""
    cold, warm, remembered, hits = [], 0, [], 0
    seen: set[str] = set()
    for each in sorted(attempts, key=lambda one: one.started):
        record = client.get(f"/v1/requests/{each.response_id}").raise_for_status().json()
        cached = each.answer.cached or 0 if each.answer is not None else 0
        if each.plan.ask.name in seen:
            warm += cached >= BLOCK
            hits += record["memo"]
            continue
        seen.add(each.plan.ask.name)
        if cached:
            cold.append(f"{each.plan.ask.name}: {cached} tokens")
        if record["memo"]:
            remembered.append(each.plan.ask.name)
    findings.check(
        f"the {name} client's first requests hit no block of the other", not cold, "; ".join(cold[:3]) or "0"
    )
    findings.check(
        f"the {name} client's first requests had nobody's relevance",
        not remembered,
        "; ".join(remembered[:3]) or "0",
    )
    findings.check(
        f"the {name} client's later ones hit their own", warm > 0, f"{warm} by blocks, {hits} by memo"
    )


DRILL = Drill("salts", "two API clients with one cache salt each ask the same at the same time", run)
