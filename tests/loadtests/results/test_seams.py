"""What the measurements write is what the report reads."""

import json
from pathlib import Path

from loadtests.load import report as load_report
from loadtests.load.measures import measured
from loadtests.load.observation import Objective, Observation
from loadtests.memory import RequestCoordinates, Shadow
from loadtests.pairs import Line
from loadtests.ratios import Within
from loadtests.report import Report
from loadtests.results import bench_section, load_section
from loadtests.results.files import read
from loadtests.stages import STAGES
from tests.loadtests.rounds import measurement, round_of


def test_a_bench_is_read_as_it_is_written(tmp_path: Path) -> None:
    line = Line("QGPM TTFT / plain", "ttft", Within())
    made = measurement("qgpm 2000", line, [2.0, 2.0])
    made.profiled = 2000
    for _, seconds in made.pairs:
        seconds.update(zip(STAGES, (0.1, 0.8, 0.05, 0.05, 0.9, 0.1), strict=True))
    coordinates = RequestCoordinates(2000, 150, 40, 1000, 20480, 47 << 20)
    written = Report({"flags": "--eager"}, [round_of(made)], Shadow(20, 1000), [coordinates], 0.25)
    (tmp_path / "bench.json").write_text(json.dumps(written.to_json()), encoding="utf-8")
    text = bench_section.section(read(tmp_path).bench).text
    assert "| QGPM TTFT / plain | 1.00 s | 2.00 s | 2.000 |" in text
    assert "| 2,000 | 2 | 100 ms (5.0 %) | 800 ms (40.0 %) |" in text
    assert "| ropeway | 12.00 s |" in text


def test_a_load_test_is_read_as_it_is_written(tmp_path: Path) -> None:
    answered = [
        Observation(n, "plain", n, n + 2.0, 0.5, 0.05, (0.05,), 100, 50, 30, 0.0, None) for n in range(4)
    ]
    failed = Observation(4, "plain", 4.0, 5.0, error="HTTP 500")
    written = load_report.Report({"machine": "2 cores"}, skipped={"qgpm_cold": "unknown field"})
    for name, seen in (("plain", [*answered, failed]), ("mixed", [failed])):
        written.scenarios.append(
            {
                "name": name,
                "arrival": {"kind": "concurrency", "concurrency": 2, "text": "2 at a time"},
                "warm_up": {"requests": 2, "errors": 0, "seconds": 1.0},
                **measured(seen, 2, Objective(2.0, 0.1)),
                "hit_rate": 0.5,
                "cache_bytes": {"kv": {"total": 2**30, "held": 2**20}},
            }
        )
    written.write(tmp_path / "load.json")
    text = load_section.section(read(tmp_path).load).text
    assert "| plain, 2 at a time | 4 | 1 | 500 ms | 500 ms | 500 ms | 50 ms | 50 ms | 2.00 s |" in text
    assert "| mixed, 2 at a time | 0 | 1 | – |" in text
    assert "80.0 %" in text
    assert "qgpm_cold was left out: unknown field" in text
