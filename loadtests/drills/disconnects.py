"""Clients that leave at random moments: in the body, in either pass, between two tokens."""

from collections.abc import Mapping
from statistics import mean

import httpx

from loadtests.drills.ask import pool, tokens_per_sentence
from loadtests.drills.attempt import Attempt
from loadtests.drills.check import Drill, Findings, Say
from loadtests.drills.crowd import Crowd
from loadtests.drills.expected import Expected
from loadtests.drills.ledger import Ledger
from loadtests.drills.outcomes import check_same, check_survival
from loadtests.drills.plans import mixed
from loadtests.drills.snapshot import Snapshot
from loadtests.drills.subject import Subject
from loadtests.drills.watch import Watch

AT_ONCE = 8
_SAMPLED = 24


def run(subject: Subject, sizes: Mapping[str, float], say: Say) -> Findings:
    """Until so many have left; others stay, and their answers must be right."""
    findings, wanted = Findings(), int(sizes["disconnects"])
    with subject.serve() as server, httpx.Client(base_url=server.url, timeout=300) as client:
        asks = pool(tokens_per_sentence(client), _SAMPLED)
        say("right answers")
        expected = Expected.of(client, asks, subject.near)
        before = Snapshot.read(client)
        say("a crowd that stays")
        with Crowd(server.url, mixed(asks, seed=1), expected, AT_ONCE) as crowd:
            crowd.wait_for(2 * AT_ONCE)
        calm, ledger = crowd.attempts, Ledger(client)
        # Evenly over the time that a request takes in a crowd, and a little beyond.
        within = 1.2 * mean(each.seconds for each in calm)
        with (
            Watch(server.url) as watch,
            Crowd(server.url, mixed(asks, seed=2, leaving=0.8, within=within), expected, AT_ONCE) as crowd,
        ):
            while crowd.asking and (count := len(_left(crowd))) < wanted:
                say(f"{count} of {wanted} disconnects")
                ledger.read([*calm, *crowd.attempts])
                crowd.wait_for(len(crowd.attempts) + AT_ONCE)
        attempts = [*calm, *crowd.attempts]
        left = _left(crowd)
        findings.figures["disconnects"] = len(left)
        findings.figures["within_seconds"] = round(within, 2)
        check_survival(findings, client, before, attempts, watch, ledger)
        findings.figures["left, as the server saw it"] = dict(ledger.outcomes)
        findings.check("so many disconnected", len(left) >= wanted, len(left))
        say("the same again")
        check_same(findings, expected.again(client, asks))
    return findings


def _left(crowd: Crowd) -> list[Attempt]:
    return [each for each in crowd.attempts if each.end == "left"]


DRILL = Drill("disconnects", "clients disconnect at random moments while others stay", run)
