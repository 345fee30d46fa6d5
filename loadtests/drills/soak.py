"""Mixed load for a long time: every kind of request, streams, and clients that leave."""

import time
from collections import Counter
from collections.abc import Mapping
from dataclasses import asdict
from statistics import median

import httpx

from loadtests.drills.ask import pool, tokens_per_sentence
from loadtests.drills.check import Drill, Findings, Say
from loadtests.drills.crowd import Crowd
from loadtests.drills.expected import Expected
from loadtests.drills.held import SAMPLE_SECONDS, Held
from loadtests.drills.ledger import Ledger
from loadtests.drills.outcomes import check_same, check_survival
from loadtests.drills.plans import mixed
from loadtests.drills.slope import Slope, TooFewError
from loadtests.drills.snapshot import Snapshot
from loadtests.drills.subject import Subject
from loadtests.drills.watch import Watch

_AT_ONCE = 4
_ASKED = 40
_LEAVING = 0.1
_WARM_SHARE = 0.3
"""Of the time, at its beginning, while stores that are bounded (records, memo) still fill up."""

GROWTH = 0.05
"""Share of the memory by which it may grow in an hour; the upper end of the interval must be below."""

_MEMO = str(1 << 18)
"""Bytes of a memo that is full before the warm-up ends."""

_KERNELS = {"ONEDNN_PRIMITIVE_CACHE_CAPACITY": "64"}
"""oneDNN compiles a kernel for each number of tokens in a step, and by default keeps 1,024 of them: what a
server on a CPU grows by in its first hour, some hundred MB."""


def run(subject: Subject, sizes: Mapping[str, float], say: Say) -> Findings:
    """For so many minutes; then everything must be as at the start."""
    findings, minutes = Findings(), sizes["minutes"]
    with (
        subject.serve("--memo-bytes", _MEMO, env=_KERNELS) as server,
        httpx.Client(base_url=server.url, timeout=300) as client,
    ):
        asks = pool(tokens_per_sentence(client), _ASKED, tokens=(100, 1500), seed=11)
        say("right answers")
        expected = Expected.of(client, asks, subject.near)
        before = Snapshot.read(client)
        # Of four at a time, most requests take longer than alone.
        within = median(right.seconds for right in expected.by_name.values())
        plans = mixed(asks, seed=12, leaving=_LEAVING, within=within)
        ledger = Ledger(client)
        started = time.monotonic()
        with (
            Held(server.pid) as memory,
            Watch(server.url) as watch,
            Crowd(server.url, plans, expected, _AT_ONCE) as crowd,
        ):
            while crowd.asking and (passed := (time.monotonic() - started) / 60) < minutes:
                say(f"{passed:.1f} of {minutes:g} minutes, {len(crowd.attempts)} requests")
                time.sleep(min(SAMPLE_SECONDS, 60 * minutes))
                ledger.read(crowd.attempts)
        findings.figures |= {
            "minutes": round((time.monotonic() - started) / 60, 1),
            "kinds": dict(Counter(each.plan.ask.name.partition(" ")[2] for each in crowd.attempts)),
            "streams": sum(each.plan.stream for each in crowd.attempts),
        }
        check_survival(findings, client, before, crowd.attempts, watch, ledger)
        _check_memory(findings, memory)
        say("the same again")
        check_same(findings, expected.again(client, asks))
    return findings


def _check_memory(findings: Findings, memory: Held) -> None:
    first = int(_WARM_SHARE * len(memory.seconds))
    findings.figures["memory"] = {
        "seconds": [round(second, 1) for second in memory.seconds],
        "bytes": memory.bytes,
        "processes": {name: [held.get(name, 0) for held in memory.processes] for name in memory.processes[0]}
        if memory.processes
        else {},
        "warm_up_samples": first,
    }
    try:
        slope = Slope.of(memory.seconds[first:], memory.bytes[first:])
    except TooFewError as error:
        findings.check("memory is flat", False, error)
        return
    findings.figures["slope"] = asdict(slope)
    mib = 2**20
    findings.check(
        f"memory is flat (grows by less than {GROWTH:.0%} in an hour)",
        slope.flat(GROWTH),
        f"{slope.per_hour / mib:+.1f} MiB/h (95 %: {slope.low / mib:+.1f} to {slope.high / mib:+.1f}) "
        f"at {slope.mean / mib:.0f} MiB",
    )


DRILL = Drill("soak", "mixed load for a long time, a tenth of whose clients leave", run)
