import json
from typing import Any

import pytest
from rich.console import Console

from loadtests.memory import RequestCoordinates, Shadow
from loadtests.pairs import Line
from loadtests.ratios import Within
from loadtests.report import Report
from loadtests.rounds import Round
from loadtests.stages import STAGES
from tests.loadtests.rounds import measurement, round_of

LINE = Line("plain TTFT / stock", "ttft", Within())
COORDINATES = RequestCoordinates(2000, 150, 40, 1000, 20480, 47 << 20)


def _report(measured: float, shadow_bytes: int) -> Report:
    rounds = [round_of(measurement("plain", LINE, [measured] * 5)) for _ in range(2)]
    return Report({"flags": "--eager"}, rounds, Shadow(shadow_bytes, 1000), [COORDINATES], 0.25)


def _profiled() -> Report:
    made = measurement("qgpm 2000", LINE, [2.0])
    made.profiled = 2000
    made.pairs[0][1].update(zip(STAGES, (0.1, 0.8, 0.05, 0.05, 0.9, 0.1), strict=True))
    return Report({}, [round_of(made)], None, [], 0.0)


def _printed(report: Report, capsys: pytest.CaptureFixture[str]) -> list[str]:
    report.print(Console(width=180))
    return capsys.readouterr().out.splitlines()


def _row(lines: list[str], text: str) -> str:
    return next(line for line in lines if text in line)


def test_a_run_holds_only_where_every_line_and_the_shadow_hold() -> None:
    assert _report(1.01, 60).holds
    assert not _report(1.10, 60).holds
    assert not _report(1.01, 61).holds


def test_the_json_carries_every_pair_and_what_it_was_measured_under() -> None:
    content = _json(_report(1.5, 20))
    assert content["setting"] == {"flags": "--eager"}
    assert content["prefix_hit_rate"] == 0.25
    assert content["shadow"] == {
        "shadow_bytes": 20,
        "cache_bytes": 1000,
        "share": 0.02,
        "verdict": "holds",
    }
    [line] = content["lines"]
    assert line["pairs"] == [[1.0, 1.5]] * 10
    assert (line["median"], line["low"], line["high"], line["count"]) == (1.5, 1.5, 1.5, 10)
    assert line["rounds"] == [1.5, 1.5]
    assert (line["promise"], line["verdict"]) == ("within 2%", "does not hold")


def test_the_json_tells_of_the_rounds_of_starts_and_of_memory() -> None:
    content = _json(_report(1.5, 20))
    assert [one["order"] for one in content["rounds"]] == [["stock", "ropeway"]] * 2
    assert content["start_seconds"] == {"stock": [10.0, 10.0], "ropeway": [12.0, 12.0]}
    assert content["memory"]["resident_bytes"] == {"stock": [1 << 30] * 2, "ropeway": [2 << 30] * 2}
    assert content["memory"]["coordinates"] == [
        {
            "tokens": 2000,
            "sentences": 150,
            "segments": 40,
            "carried_bytes": 1000,
            "held_bytes": 20480,
            "cache_bytes": 47 << 20,
        }
    ]


def test_the_json_tells_the_stages_of_each_length() -> None:
    stages = _json(_profiled())["stages"]
    assert [stage["stage"] for stage in stages] == [*STAGES]
    assert all(set(stage) == {"tokens", "stage", "seconds", "share", "count"} for stage in stages)
    assert stages[1] == {
        "tokens": 2000, "stage": "score", "seconds": 0.8, "share": pytest.approx(0.4), "count": 1
    }  # fmt: skip


def test_a_run_that_was_interrupted_at_its_start_reports_that_there_is_nothing(
    capsys: pytest.CaptureFixture[str],
) -> None:
    report = Report({"flags": ""}, [Round.numbered(0)], None, [], 0.0)
    content = _json(report)
    assert (content["lines"], content["stages"], content["shadow"]) == ([], [], None)
    assert content["start_seconds"] == {"stock": [], "ropeway": []}
    assert not any("holds" in line for line in _printed(report, capsys))


def test_the_table_shows_ratio_interval_rounds_count_and_verdict(capsys: pytest.CaptureFixture[str]) -> None:
    lines = _printed(_report(1.5, 20), capsys)
    row = _row(lines, "plain TTFT")
    for cell in ("1.00 s", "1.50 s", "1.500", "1.500 to 1.500", "10", "within 2%", "does not hold"):
        assert cell in row
    assert row.count("1.500 to 1.500") == 2  # of the interval, and of the rounds
    assert "25.00%" in _row(lines, "prefix cache")


def test_the_tables_show_memory_starts_and_stages(capsys: pytest.CaptureFixture[str]) -> None:
    lines = _printed(_report(1.5, 20), capsys)
    assert "0.0200" in _row(lines, "key shadow")
    coordinates = _row(lines, "coordinates, 2,000 tokens")
    assert "20.0 KiB" in coordinates
    assert "47.0 MiB" in coordinates
    assert "12.0 s" in _row(lines, "│ ropeway")
    assert "2048.0 MiB" in _row(lines, "│ ropeway")
    stages = _row(_printed(_profiled(), capsys), "900.0 ms")
    for cell in ("2,000", "800.0 ms (40.0%)", "900.0 ms (45.0%)"):
        assert cell in stages


def _json(report: Report) -> Any:
    return json.loads(json.dumps(report.to_json()))
