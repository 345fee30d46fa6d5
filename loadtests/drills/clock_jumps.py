"""The wall clock jumps while requests run, as when NTP steps it; the monotonic clock goes on."""

import time
from collections.abc import Mapping
from email.utils import parsedate_to_datetime
from itertools import pairwise
from pathlib import Path
from tempfile import TemporaryDirectory

import httpx

from loadtests.drills.ask import pool, tokens_per_sentence
from loadtests.drills.check import Drill, Findings, NotRunError, Say
from loadtests.drills.crowd import Crowd
from loadtests.drills.expected import Expected
from loadtests.drills.faked_clock import FakedClock, library
from loadtests.drills.outcomes import check_same, check_survival
from loadtests.drills.plans import mixed
from loadtests.drills.snapshot import Snapshot
from loadtests.drills.subject import Subject
from loadtests.drills.watch import Watch

JUMPS = (3600, -3600, 86_400, 0)
"""Seconds ahead of the true time, one after the other."""

_AT_ONCE = 6
_ASKED = 16
_OURS = ("ropeway_ttft_seconds_sum", "ropeway_stage_seconds_sum")
_THEIRS = ("vllm:time_to_first_token_seconds_sum", "vllm:e2e_request_latency_seconds_sum")


def run(subject: Subject, sizes: Mapping[str, float], say: Say) -> Findings:
    """Forwards and backwards by hours, in the middle of answers."""
    if (preload := library()) is None:
        raise NotRunError("no libfaketime that works under this Python is to be had")
    with TemporaryDirectory() as folder:
        return _run(subject, FakedClock(preload, Path(folder)), say)


def _run(subject: Subject, clock: FakedClock, say: Say) -> Findings:
    findings = Findings()
    with (
        subject.serve(env=clock.env) as server,
        httpx.Client(base_url=server.url, timeout=300) as client,
    ):
        asks = pool(tokens_per_sentence(client), _ASKED, seed=7)
        say("right answers")
        expected = Expected.of(client, asks, subject.near)
        before, started = Snapshot.read(client), time.monotonic()
        readings, seen = [before], []
        with (
            Watch(server.url) as watch,
            Crowd(server.url, mixed(asks, seed=8), expected, _AT_ONCE) as crowd,
        ):
            crowd.wait_for(_AT_ONCE)
            for jump in JUMPS:
                say(f"{jump:+} s")
                clock.jump(jump)
                crowd.wait_for(len(crowd.attempts) + 2 * _AT_ONCE)
                seen.append(_ahead(client))
                readings.append(Snapshot.read(client))
        check_survival(findings, client, before, crowd.attempts, watch)
        readings.append(Snapshot.read(client))
        findings.check(
            "the server's clock jumped",
            all(abs(ahead - jump) < 60 for ahead, jump in zip(seen, JUMPS, strict=True)),
            ", ".join(f"{ahead:+.0f} s" for ahead in seen),
        )
        refused = [each.why for each in crowd.attempts if each.end != "answered"]
        findings.check(
            "every request was answered", not refused, "; ".join(refused[:3]) or len(crowd.attempts)
        )
        # No request takes longer than all of them, and each stands in at most seven stages.
        most = (time.monotonic() - started) * len(crowd.attempts)
        for name in _OURS:
            _check_seconds(findings, readings, name, most)
        for name in _THEIRS:
            values = [reading.total(name) for reading in readings]
            findings.figures[f"{name}, vLLM's own"] = [round(value) for value in values]
        say("the same again")
        check_same(findings, expected.again(client, asks))
    return findings


def _ahead(client: httpx.Client) -> float:
    """By how much the server's clock, as its answers tell it, is ahead of ours."""
    said = parsedate_to_datetime(client.get("/health").headers["Date"]).timestamp()
    return said - time.time()


def _check_seconds(findings: Findings, readings: list[Snapshot], name: str, most: float) -> None:
    values = [reading.total(name) for reading in readings]
    grew = all(after >= before for before, after in pairwise(values))
    findings.check(
        f"{name} counts only time that passed",
        grew and values[-1] - values[0] <= 7 * most,
        ", ".join(f"{value:.1f}" for value in values),
    )


DRILL = Drill("clock", "the wall clock jumps by hours, forwards and backwards, under load", run)
