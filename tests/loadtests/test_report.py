import json

import pytest
from rich.console import Console

from loadtests.pairs import Line, Result
from loadtests.ratios import Within
from loadtests.report import Report, Shadow

LINE = Line("plain TTFT / stock", "ttft", Within())


def _report(measured: float, shadow_bytes: int) -> Report:
    pairs = [({"ttft": 1.0}, {"ttft": measured})] * 10
    return Report({"flags": "--eager"}, [Result.of(LINE, pairs)], Shadow(shadow_bytes, 1000), 0.25)


def test_a_run_holds_only_where_every_line_and_the_shadow_hold() -> None:
    assert _report(1.01, 60).holds
    assert not _report(1.10, 60).holds
    assert not _report(1.01, 61).holds


def test_the_json_carries_every_pair_and_what_it_was_measured_under() -> None:
    content = json.loads(json.dumps(_report(1.5, 20).to_json()))
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
    assert line["verdict"] == "does not hold"


def test_the_table_shows_ratio_interval_count_and_verdict(capsys: pytest.CaptureFixture[str]) -> None:
    _report(1.5, 20).print(Console(width=160))
    printed = capsys.readouterr().out
    row = next(line for line in printed.splitlines() if "plain TTFT" in line)
    for cell in ("1.00 s", "1.50 s", "1.500", "1.500 to 1.500", "10", "within 2%", "does not hold"):
        assert cell in row
    assert "25.00%" in printed
