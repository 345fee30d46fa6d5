"""A cache with room for two of the longest requests, and many that want it at once."""

from collections.abc import Mapping

import httpx

from loadtests.drills.ask import pool, tokens_per_sentence
from loadtests.drills.check import Drill, Findings, Say
from loadtests.drills.crowd import Crowd
from loadtests.drills.expected import Expected
from loadtests.drills.outcomes import check_same, check_survival
from loadtests.drills.plans import mixed
from loadtests.drills.snapshot import Snapshot
from loadtests.drills.subject import BLOCK, Subject
from loadtests.drills.watch import Watch

_LENGTH = 1280
_BLOCKS = 2 * _LENGTH // BLOCK + 1  # one block is vLLM's own
_AT_ONCE = 12
_ASKED = 16


def run(subject: Subject, sizes: Mapping[str, float], say: Say) -> Findings:
    """Prompts of half the length, and answers long enough that running requests take each other's blocks."""
    findings = Findings()
    flags = ("--max-model-len", str(_LENGTH), "--num-gpu-blocks-override", str(_BLOCKS))
    with subject.serve(*flags) as server, httpx.Client(base_url=server.url, timeout=300) as client:
        asks = pool(tokens_per_sentence(client), _ASKED, tokens=(300, 800), output=(60, 120), seed=3)
        say("right answers")
        expected = Expected.of(client, asks, subject.near)
        before = Snapshot.read(client)
        fullest = 0.0
        wanted = int(sizes["full_requests"])
        with (
            Watch(server.url) as watch,
            Crowd(server.url, mixed(asks, seed=4), expected, _AT_ONCE) as crowd,
        ):
            while crowd.asking and len(crowd.attempts) < wanted:
                say(f"{len(crowd.attempts)} of {wanted} answers")
                fullest = max(fullest, Snapshot.read(client).total("vllm:kv_cache_usage_perc"))
                crowd.wait_for(len(crowd.attempts) + 2)
        check_survival(findings, client, before, crowd.attempts, watch)
        refused = [each.why for each in crowd.attempts if each.end != "answered"]
        findings.check(
            "every request was answered", not refused, "; ".join(refused[:3]) or len(crowd.attempts)
        )
        after = Snapshot.read(client)
        preempted = _since(before, after, "vllm:num_preemptions_total")
        evicted = _since(before, after, "ropeway_cache_evicted_blocks_total")
        findings.figures |= {"blocks": _BLOCKS, "preemptions": preempted, "evicted_blocks": evicted}
        findings.check("the cache was full", fullest > 0.9 and preempted > 0, f"{fullest:.0%} at the fullest")
        say("the same again")
        check_same(findings, expected.again(client, asks))
    return findings


def _since(before: Snapshot, after: Snapshot, name: str) -> int:
    return int(after.total(name) - before.total(name))


DRILL = Drill("cache", "twelve requests at a time in a cache for two, so that they are preempted", run)
