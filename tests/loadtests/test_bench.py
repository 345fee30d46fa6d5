import json
from pathlib import Path

import pytest

from loadtests.entry import INTERRUPTED
from loadtests.pairs import Line
from loadtests.ratios import Within
from loadtests.side_by_side import Bench, main
from tests.loadtests.rounds import measurement, round_of

LINE = Line("plain TTFT / stock", "ttft", Within())


def _rounds_that_find(monkeypatch: pytest.MonkeyPatch, *found: float | BaseException) -> None:
    """Let each round find one pair of this ratio, or be ended by this after a pair of ratio 1."""

    def run_round(bench: Bench, number: int) -> None:
        value = found[number]
        ended = isinstance(value, BaseException)
        bench.rounds.append(round_of(measurement("plain", LINE, [1.0 if ended else value])))
        if ended:
            raise value

    monkeypatch.setattr(Bench, "run_round", run_round)


def test_an_interrupted_run_keeps_and_prints_what_it_had(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    _rounds_that_find(monkeypatch, 1.5, KeyboardInterrupt())
    out = tmp_path / "bench.json"
    status = main(["--model", "some/model", "--eager", "--out", str(out)])
    assert status == INTERRUPTED
    printed = capsys.readouterr().out
    assert "plain TTFT" in printed
    assert "Interrupted" in printed
    content = json.loads(out.read_text())
    assert content["lines"][0]["pairs"] == [[1.0, 1.5], [1.0, 1.0]]
    assert content["setting"]["rounds"] == "2 of 4"


def test_a_run_that_fails_keeps_and_prints_what_it_had(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    _rounds_that_find(monkeypatch, 1.5, RuntimeError("server ended with 1"))
    out = tmp_path / "bench.json"
    assert main(["--model", "some/model", "--eager", "--out", str(out)]) == 1
    printed = capsys.readouterr()
    assert "plain TTFT" in printed.out
    assert "server ended with 1" in printed.err
    assert json.loads(out.read_text())["lines"][0]["count"] == 2


@pytest.mark.parametrize(("ratio", "status"), [(1.0, 0), (1.5, 1)])
def test_the_status_says_whether_every_promise_holds(
    monkeypatch: pytest.MonkeyPatch, ratio: float, status: int
) -> None:
    _rounds_that_find(monkeypatch, ratio, ratio)
    assert main(["--model", "some/model", "--rounds", "2", "--eager"]) == status


def test_the_setting_says_how_it_was_measured_and_nothing_of_when(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    _rounds_that_find(monkeypatch, 1.0)
    out = tmp_path / "bench.json"
    main(["--model", "some/model", "--rounds", "1", "--eager", "--out", str(out)])
    first = out.read_text()
    main(["--model", "some/model", "--rounds", "1", "--eager", "--out", str(out)])
    assert out.read_text() == first
    setting = json.loads(first)["setting"]
    assert (setting["model"], setting["how"], setting["rounds"]) == ("some/model", "eager", "1 of 1")
    assert {"machine", "versions", "flags"} < set(setting)


def test_a_file_that_cannot_be_written_is_refused_before_the_work(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["--model", "some/model", "--eager", "--out", str(tmp_path)]) == 2
    assert str(tmp_path) in capsys.readouterr().err


def test_a_file_that_can_no_longer_be_written_costs_no_table(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / "gone"

    def run_round(bench: Bench, number: int) -> None:
        bench.rounds.append(round_of(measurement("plain", LINE, [1.0])))
        folder.rmdir()

    monkeypatch.setattr(Bench, "run_round", run_round)
    assert main(["--model", "some/model", "--eager", "--out", str(folder / "bench.json")]) == 1
    printed = capsys.readouterr()
    assert "plain TTFT" in printed.out
    assert "gone" in printed.err


@pytest.mark.parametrize(
    ("arguments", "steps"),
    [
        # Two starts, then each measurement's pairs and where it has one its warm-up.
        (["--quick"], 2 + (1 + 2) + (1 + 2) + (1 + 2) + 2 + 2 + (1 + 2)),
        (["--quick", "--rounds", "3", "--only", "plain"], 3 * (2 + (1 + 2))),
    ],
)
def test_the_bar_knows_how_much_there_is_to_do_before_a_server_starts(
    monkeypatch: pytest.MonkeyPatch, arguments: list[str], steps: int
) -> None:
    totals: list[float | None] = []

    def run_round(bench: Bench, number: int) -> None:
        totals.append(bench.bar.total)
        bench.rounds.append(round_of(measurement("plain", LINE, [1.0])))

    monkeypatch.setattr(Bench, "run_round", run_round)
    main(["--model", "some/model", "--eager", *arguments])
    assert set(totals) == {steps}
