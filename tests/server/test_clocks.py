"""What takes how long is measured by the monotonic clock, which no jump of the wall clock moves."""

import ast
import time
from pathlib import Path

import pytest

from server.request_record import PromptRecord

ROOT = Path(__file__).parents[2]
# Where the arrival of a request is noted, for vLLM and traces, and the moment of a log line.
MOMENTS = {"server/engine.py", "server/intent.py", "server/request_log.py"}


def reads_the_wall_clock(file: Path) -> bool:
    tree = ast.parse(file.read_text(encoding="utf-8"))
    names = {ast.unparse(node) for node in ast.walk(tree) if isinstance(node, ast.Attribute)}
    return bool(names & {"time.time", "time.time_ns", "datetime.now"})


def test_the_wall_clock_is_read_for_moments_alone() -> None:
    files = [
        path for package in ("server", "cache", "positional") for path in ROOT.glob(f"{package}/**/*.py")
    ]
    assert {str(path.relative_to(ROOT)) for path in files if reads_the_wall_clock(path)} == MOMENTS


@pytest.mark.parametrize("jump", [3600.0, -3600.0])
def test_a_record_counts_the_time_that_passed(jump: float, monkeypatch: pytest.MonkeyPatch) -> None:
    record = PromptRecord(time.time(), 9)
    wall = time.time()
    monkeypatch.setattr(time, "time", lambda: wall + jump)
    assert 0 <= record.since_arrival() < 600
