"""A process of the server is killed under load, and the server is started again at the same address."""

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from urllib.parse import urlsplit

import httpx
import psutil

from loadtests.drills.ask import Ask, pool, tokens_per_sentence
from loadtests.drills.check import Findings, Say
from loadtests.drills.crowd import Crowd
from loadtests.drills.expected import Expected
from loadtests.drills.outcomes import check_answers, check_idle, check_same
from loadtests.drills.plans import mixed
from loadtests.drills.remains import Traces
from loadtests.drills.snapshot import settled
from loadtests.drills.subject import Subject
from loadtests.drills.watch import UNREACHABLE, Watch
from server.child import Server

_AT_ONCE = 6
_ASKED = 16
_GONE_SECONDS = 60.0
_TOLD_SECONDS = 30.0
"""Within which every client must see its request end."""

READY, DEAD = "ready", "dead"


@dataclass(frozen=True, slots=True)
class Death:
    """Which process is killed, and with which status the server itself must end then (None: any)."""

    victim: Callable[[Server], psutil.Process]
    status: int | None

    def run(self, subject: Subject, sizes: Mapping[str, float], say: Say) -> Findings:
        """Kill it under load, see what is left, and start again."""
        findings = Findings()
        asks, expected, port = self._kill(findings, subject, say)
        say("starts again")
        with (
            subject.serve(port=port) as server,
            Watch(server.url) as watch,
            httpx.Client(base_url=server.url, timeout=300) as client,
        ):
            watch.wait_for(READY, seconds=_TOLD_SECONDS)
            check_same(findings, expected.again(client, asks))
            check_idle(findings, settled(client))
            findings.check("started again at the same address, and ready", watch.seen[-1:] == [READY], watch)
        return findings

    def _kill(
        self, findings: Findings, subject: Subject, say: Say
    ) -> tuple[Sequence[Ask], Expected, int | None]:
        with subject.serve() as server:
            with httpx.Client(base_url=server.url, timeout=300) as client:
                asks = pool(tokens_per_sentence(client), _ASKED, seed=5)
                say("right answers")
                expected = Expected.of(client, asks, subject.near)
            traces = Traces.of(server)
            with (
                Watch(server.url) as watch,
                Crowd(server.url, mixed(asks, seed=6), expected, _AT_ONCE) as crowd,
            ):
                crowd.wait_for(2 * _AT_ONCE)
                say("kills")
                killed = time.monotonic()
                self.victim(server).kill()
                gone = traces.seconds_until_gone(_GONE_SECONDS)
                watch.wait_for(UNREACHABLE, seconds=_GONE_SECONDS)
            check_answers(findings, crowd.attempts)
            waiting = [
                each for each in crowd.attempts if each.started <= killed <= each.started + each.seconds
            ]
            longest = max((each.started + each.seconds - killed for each in waiting), default=0.0)
            findings.check(
                f"every client that waited was told within {_TOLD_SECONDS:.0f} s",
                longest <= _TOLD_SECONDS,
                f"{len(waiting)} waited, {longest:.1f} s at most",
            )
            findings.check(
                "/ready never said anything but ready, dead, or nothing",
                set(watch.seen) <= {READY, DEAD, UNREACHABLE} and watch.seen.count(READY) == 1,
                watch,
            )
            self._check_end(findings, server, traces, gone)
            return asks, expected, urlsplit(server.url).port

    def _check_end(self, findings: Findings, server: Server, traces: Traces, gone: float | None) -> None:
        findings.check(
            "no process of it is left",
            gone is not None,
            f"all gone after {gone:.1f} s" if gone is not None else f"alive: {', '.join(traces.alive)}",
        )
        findings.check(
            "no shared memory of it is left",
            not traces.left,
            ", ".join(traces.left) or f"of {len(traces.segments)} segments",
        )
        if self.status is not None and gone is not None:
            status = psutil.Process(server.pid).wait(timeout=1) if psutil.pid_exists(server.pid) else None
            findings.check(f"it ended with status {self.status}", status == self.status, status)
