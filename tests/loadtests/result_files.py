"""A small file of each measurement, as the report reads them."""

import json
from pathlib import Path
from typing import Any

from tests.loadtests.quality_runs import line, setting, write

MACHINE = {"machine": "2 cores, Some CPU, x86_64, Linux", "versions": {"python": "3.11.9", "torch": "2.9"}}
SPREAD = {"mean": 0.5, "p50": 0.4, "p90": 0.9, "p99": 1.5}


def quality(path: Path, **changed: Any) -> Path:
    """Gold evidence gains 2 nats on `single`; QGPM loses 3 on `qa`; at 2,000 tokens nothing was run."""
    lines = []
    for number in range(6):
        for task, gold, heads in (("single", 2.0, 0.0), ("qa", 0.0, -3.0)):
            drift = 0.1 * number
            at = {"task": task, "depth": number / 5}
            lines += [
                line("plain", number, -5.0 - drift, **at),
                line("qgpm", number, -5.0 + heads + drift, evidence_rank=number % 2, **at),
                line("gold", number, -5.0 + gold + drift, mode="evidence", correct=1.0, **at),
            ]
    return write(path, setting(**{**MACHINE, "model": "tiny", **changed}), *lines)


def bench(**changed: Any) -> dict[str, Any]:
    """One promise that holds and one that does not."""
    held = {
        "name": "plain TTFT / stock",
        "median": 1.01,
        "low": 0.99,
        "high": 1.03,
        "count": 2,
        "promise": "within 2%",
        "verdict": "holds",
        "rounds": [1.0, 1.02],
        "pairs": [[1.0, 1.0], [1.0, 1.02]],
    }
    broken = {**held, "name": "QGPM TTFT / plain", "median": 2.5, "verdict": "does not hold"}
    return {
        "setting": {**MACHINE, "flags": "--enforce-eager"},
        "lines": [held, broken],
        "shadow": {"shadow_bytes": 2**20, "cache_bytes": 2**30, "share": 2**-10, "verdict": "holds"},
        "prefix_hit_rate": 0.001,
        "rounds": [{"order": ["stock", "ropeway"]}, {"order": ["ropeway", "stock"]}],
        "stages": [
            {"tokens": 2000, "stage": "score", "seconds": 0.4, "share": 0.4, "count": 2},
            {"tokens": 2000, "stage": "answer", "seconds": 0.6, "share": 0.6, "count": 2},
        ],
        "memory": {
            "coordinates": [{"tokens": 2000, "sentences": 90, "held_bytes": 2**17, "cache_bytes": 2**25}],
            "resident_bytes": {"stock": [2**30, 2**30], "ropeway": [2**30, 2**30]},
        },
        "start_seconds": {"stock": [20.0, 22.0], "ropeway": [24.0, 26.0]},
        **changed,
    }


def scenario(name: str, **changed: Any) -> dict[str, Any]:
    """One scenario of a load test, four requests at a time."""
    return {
        "name": name,
        "arrival": {"kind": "concurrency", "concurrency": 4, "text": "4 at a time"},
        "warm_up": {"requests": 4, "seconds": 3.0},
        "requests": 30,
        "errors": {},
        "ttft": SPREAD,
        "tpot": SPREAD,
        "itl": SPREAD,
        "e2e": SPREAD,
        "requests_per_second": 2.0,
        "output_tokens_per_second": 64.0,
        "goodput": {
            "objective": {"ttft_s": 2.0, "tpot_s": 0.1},
            "requests_per_second": 1.5,
            "share": 0.75,
        },
        "hit_rate": 0.25,
        "cache_bytes": {"kv": {"held": 2**20, "total": 2**30}},
        "parts": {name: {"requests": 30, "ttft": SPREAD, "tpot": SPREAD, "e2e": SPREAD}},
        **changed,
    }


def load(**changed: Any) -> dict[str, Any]:
    """Two scenarios, one of which was not answered once, and one that was left out."""
    dead = scenario(
        "mixed",
        arrival={"kind": "poisson", "rate": 0.5, "text": "poisson, 0.5/s"},
        requests=0,
        errors={"HTTP 500": 3},
        requests_per_second=0.0,
        output_tokens_per_second=0.0,
        goodput={**scenario("plain")["goodput"], "requests_per_second": 0.0, "share": 0.0},
        hit_rate=None,
        cache_bytes=None,
        parts={},
        **{name: {} for name in ("ttft", "tpot", "itl", "e2e")},
    )
    return {
        "setting": MACHINE,
        "interrupted": False,
        "skipped": [{"name": "qgpm_cold", "reason": "the server does not know qgpm"}],
        "scenarios": [scenario("plain"), dead],
        **changed,
    }


def every(docs: Path) -> Path:
    """The folder of the report, with a file of each measurement in it."""
    quality(speed(docs) / "results" / "quality.jsonl")
    return docs


def speed(docs: Path) -> Path:
    """The folder of the report, with what measures speed in it."""
    folder = docs / "results"
    folder.mkdir(parents=True)
    (folder / "bench.json").write_text(json.dumps(bench()), encoding="utf-8")
    (folder / "load.json").write_text(json.dumps(load()), encoding="utf-8")
    return docs
