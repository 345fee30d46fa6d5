"""The report says what was seen, what did not hold, and what was not run."""

from pathlib import Path
from typing import Any

import pytest

from loadtests.drills.file import REPORTED, File
from loadtests.drills.registry import DRILLS, SOAK
from loadtests.drills.report import OUT, main, report

ROOT = Path(__file__).parents[3]
MIB = 2**20


def entry(*held: bool, not_run: str | None = None, **figures: Any) -> dict[str, Any]:
    checks = [{"name": f"thing {i}", "held": each, "seen": f"saw {i}"} for i, each in enumerate(held)]
    return {
        "what": "something is broken",
        "model": "a tiny model",
        "machine": "2 cores",
        "versions": {"python": "3.11"},
        "seconds": 12,
        "not_run": not_run,
        "checks": checks,
        "figures": figures,
    }


def made(**drills: dict[str, Any]) -> str:
    return report(File(Path("none"), drills))


def test_what_did_not_hold_stands_out() -> None:
    text = made(worker=entry(True, False), salts=entry(True, True))
    assert "| `worker` | something is broken | **1 of 2** |" in text
    assert "| `salts` | something is broken | 2 of 2 |" in text
    assert "| thing 1 | **did not hold** | saw 1 |" in text


def test_what_was_not_run_is_named_with_its_reason() -> None:
    text = made(clock=entry(not_run="there is no libfaketime here"))
    behind = text.partition("## What was not run")[2]
    assert "`clock`: there is no libfaketime here" in behind
    missing = [name for name in DRILLS if name != "clock"]
    assert missing
    assert all(f"- `{name}`: {DRILLS[name].what}" in behind for name in missing)
    assert "a GPU" in behind


def test_the_slope_is_told_with_its_interval_and_the_series() -> None:
    slope = {
        "per_hour": 2 * MIB,
        "low": -MIB,
        "high": 5 * MIB,
        "mean": 700 * MIB,
        "hours": 0.35,
        "samples": 252,
    }
    memory = {
        "seconds": [5.0, 190.0, 200.0],
        "bytes": [700 * MIB, 701 * MIB, 702 * MIB],
        "processes": {"main": [300 * MIB, 300 * MIB, 300 * MIB], "core": [400 * MIB, 401 * MIB, 402 * MIB]},
        "warm_up_samples": 1,
    }
    text = made(**{SOAK: entry(True, slope=slope, memory=memory, requests=9)})
    assert (
        "+2.00 MiB an hour, 95 % interval -1.00 to +5.00, at 700 MiB; of 252 samples over 21 minutes" in text
    )
    assert "| minute | MiB | main | core |" in text
    assert "| 0 | 700.0 | 300.0 | 400.0 |\n| 3 | 701.0 | 300.0 | 401.0 |" in text
    assert "702.0" not in text


def test_the_same_file_gives_the_same_report(tmp_path: Path) -> None:
    file = File.read(tmp_path / "drills.json")
    file.note("salts", entry(True, requests=3))
    file.note("worker", entry(True))
    arguments = ["--file", str(tmp_path / "drills.json"), "--out", str(tmp_path / "reliability.md")]
    assert main([*arguments, "--check"]) == 1
    assert main(arguments) == 0
    assert main([*arguments, "--check"]) == 0
    text = (tmp_path / "reliability.md").read_text()
    assert text == report(File.read(tmp_path / "drills.json"))
    assert text.index("`worker`") < text.index("`salts`")  # in the order in which they run


def test_a_run_keeps_what_other_runs_found(tmp_path: Path) -> None:
    path = tmp_path / "results" / "drills.json"
    File.read(path).note("salts", entry(True))
    File.read(path).note("worker", entry(False))
    File.read(path).note("worker", entry(True))
    kept = File.read(path).drills
    assert kept == {"salts": entry(True), "worker": entry(True)}
    assert [each.name for each in path.parent.iterdir()] == ["drills.json"]


@pytest.mark.skipif(not (ROOT / REPORTED).exists(), reason="no drill was run yet")
def test_the_committed_report_is_that_of_the_committed_file() -> None:
    assert (ROOT / OUT).read_text(encoding="utf-8") == report(File.read(ROOT / REPORTED))
