import json
from collections.abc import Mapping
from pathlib import Path

import pytest

from loadtests.results.__main__ import main
from loadtests.results.files import read
from loadtests.results.report import report
from tests.loadtests import result_files


def _written(docs: Path) -> Mapping[str, bytes]:
    return {str(path.relative_to(docs)): path.read_bytes() for path in docs.rglob("*") if path.is_file()}


@pytest.fixture
def docs(tmp_path: Path) -> Path:
    """A folder that holds what measures speed: the report of answers takes longest."""
    return result_files.speed(tmp_path / "docs")


def test_the_same_files_make_the_same_report_byte_for_byte(tmp_path: Path) -> None:
    docs = result_files.every(tmp_path / "docs")
    assert main(["--docs", str(docs)]) == 0
    first = _written(docs)
    assert main(["--docs", str(docs)]) == 0
    assert _written(docs) == first
    assert {"results.md", "results/accuracy.svg", "results/ratios.svg", "results/load.svg"} < set(first)


def test_every_plot_that_the_report_shows_is_there(docs: Path) -> None:
    made = report(read(docs / "results"))
    shown = {part.partition(")")[0] for part in made["results.md"].split("](")[1:] if ".svg)" in part}
    assert shown == {name for name in made if name.endswith(".svg")}


def test_a_changed_line_changes_the_report(tmp_path: Path) -> None:
    path = result_files.quality(tmp_path / "quality.jsonl")
    before = report(read(tmp_path))
    lines = path.read_text(encoding="utf-8").splitlines()
    observation = json.loads(lines[-1])
    lines[-1] = json.dumps({**observation, "logprob": observation["logprob"] - 1.0})
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    after = report(read(tmp_path))
    assert after["results.md"] != before["results.md"]
    assert after["results/edits-difference.svg"] != before["results/edits-difference.svg"]


def test_a_check_tells_a_report_that_is_up_to_date_from_one_that_is_not(
    docs: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["--docs", str(docs), "--check"]) == 1
    assert not (docs / "results.md").exists()
    assert main(["--docs", str(docs)]) == 0
    assert main(["--docs", str(docs), "--check"]) == 0
    capsys.readouterr()
    (docs / "results" / "bench.json").write_text(json.dumps(result_files.bench(prefix_hit_rate=0.5)))
    assert main(["--docs", str(docs), "--check"]) == 1
    assert capsys.readouterr().err == f"{docs}/results.md is out of date: make results\n"


def test_a_plot_that_is_shown_no_more_goes(docs: Path) -> None:
    assert main(["--docs", str(docs)]) == 0
    (docs / "results" / "load.json").unlink()
    assert main(["--docs", str(docs), "--check"]) == 1
    assert main(["--docs", str(docs)]) == 0
    assert not (docs / "results" / "load.svg").exists()
    assert (docs / "results" / "ratios.svg").exists()


def test_machine_versions_and_seed_of_each_file_come_first(docs: Path) -> None:
    text = report(read(docs / "results"))["results.md"]
    first = text.partition("## ")[0]
    assert "| bench.json | 2 cores, Some CPU, x86_64, Linux | python 3.11.9; torch 2.9 | not told |" in first
    assert "**Nothing here was run on a GPU.**" in first


def test_a_gpu_is_said_where_there_was_one(docs: Path) -> None:
    machine = {"setting": {"machine": "2 x Some GPU, 8 cores, Some CPU, x86_64, Linux"}}
    (docs / "results" / "bench.json").write_text(json.dumps(result_files.bench(**machine)), encoding="utf-8")
    assert "On a GPU: bench.json." in report(read(docs / "results"))["results.md"]


def test_a_report_of_nothing_says_how_to_measure_everything(tmp_path: Path) -> None:
    text = report(read(tmp_path))["results.md"]
    assert text.count("**Not measured yet.**") == 4
    for command in ("make quality", "make bench", "make loadtest URL=", "make results", "ropeway tune"):
        assert command in text


def test_a_broken_file_ends_the_command_with_its_name(docs: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (docs / "results" / "quality.jsonl").write_text("{}\n", encoding="utf-8")
    assert main(["--docs", str(docs)]) == 1
    assert "quality.jsonl:1: grid: " in capsys.readouterr().err
    assert not (docs / "results.md").exists()


def test_a_report_that_cannot_be_written_is_said(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    docs = tmp_path / "docs"
    docs.touch()
    assert main(["--docs", str(docs)]) == 1
    assert str(docs) in capsys.readouterr().err
