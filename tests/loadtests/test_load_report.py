import json
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from loadtests.load.measures import measured
from loadtests.load.observation import Objective, Observation
from loadtests.load.report import Report


def _line(*parts: str, errors: int = 0) -> dict[str, Any]:
    seen = [
        Observation(number, part, number, number + 3.0, first_token=0.25 + number, per_token=0.1)
        for number, part in enumerate(parts)
    ]
    failed = [Observation(9, "plain", 0.0, 1.0, error="HTTP 503")] * errors
    return {
        "name": "mixed",
        "arrival": {"kind": "poisson", "rate": 2.0, "text": "poisson, 2/s"},
        "warm_up": {"requests": 4, "errors": 0, "seconds": 2.0},
        **measured([*seen, *failed], 1, Objective(1.0, 0.2)),
        "late": {},
        "hit_rate": 0.25,
        "hit_rate_from": "usage",
        "cache_bytes": {"kv": {"total": 4 << 20, "held": 1 << 20}},
    }


def _printed(report: Report, capsys: pytest.CaptureFixture[str]) -> str:
    report.print(Console())
    return capsys.readouterr().out


def _row(printed: str, name: str) -> str:
    return next(line for line in printed.splitlines() if line.startswith("│") and name in line)


def test_a_row_shows_what_a_scenario_came_to(capsys: pytest.CaptureFixture[str]) -> None:
    row = _row(_printed(Report({}, [_line("plain", errors=1)]), capsys), "mixed")
    for cell in ("poisson, 2/s", "1", "250 ms", "100 ms", "3.00 s", "50%", "25%"):
        assert cell in row


def test_the_few_kinds_of_a_scenario_have_rows_of_their_own(capsys: pytest.CaptureFixture[str]) -> None:
    printed = _printed(Report({}, [_line("plain", "qgpm")]), capsys)
    assert "250 ms" in _row(printed, "plain")
    assert "1.25 s" in _row(printed, "qgpm")
    many = _printed(Report({}, [_line("a", "b", "c", "d")]), capsys)
    assert sum(line.startswith("│") for line in many.splitlines()) == 1


def test_errors_omissions_and_the_cache_are_told_in_words(capsys: pytest.CaptureFixture[str]) -> None:
    report = Report({"url": "http://h"}, [_line("plain", errors=2)], {"qgpm_cold": "no such field"}, True)
    printed = _printed(report, capsys)
    for text in (
        "url: http://h",
        "errors of mixed, poisson, 2/s: 2 of HTTP 503",
        "left out: qgpm_cold: no such field",
        "cache at the end: kv 1.0 of 4.0 MiB",
        "fewer than 20 requests",
        "Interrupted",
    ):
        assert text in printed


def test_a_run_that_measured_nothing_still_has_a_table(capsys: pytest.CaptureFixture[str]) -> None:
    assert "TTFT" in _printed(Report({}), capsys)
    assert "-" in _row(_printed(Report({}, [_line()]), capsys), "mixed")


def test_the_file_holds_all_of_it(tmp_path: Path) -> None:
    out = tmp_path / "load.json"
    report = Report({"nonce": "x"}, [_line("plain")], {"qgpm_cold": "why"})
    report.write(out)
    assert json.loads(out.read_text()) == {
        "setting": {"nonce": "x"},
        "interrupted": False,
        "skipped": [{"name": "qgpm_cold", "reason": "why"}],
        "scenarios": [_line("plain")],
    }
    assert [path.name for path in out.parent.iterdir()] == ["load.json"]
