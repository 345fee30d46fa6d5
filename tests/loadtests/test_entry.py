"""A measurement can be interrupted before it has begun."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from loadtests.entry import INTERRUPTED, run

WAITING = """
import time

print("imported", flush=True)
time.sleep(60)
"""


def test_the_status_is_that_of_the_measurement(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "counting.py").write_text("def main(arguments):\n    return len(arguments)\n")
    monkeypatch.syspath_prepend(tmp_path)
    assert run("counting", ["a", "b"]) == 2


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_what_is_still_imported_can_be_interrupted(tmp_path: Path, number: signal.Signals) -> None:
    (tmp_path / "waiting.py").write_text(WAITING)
    started = [
        sys.executable,
        "-c",
        "import sys; from loadtests.entry import run; sys.exit(run('waiting', []))",
    ]
    path = os.pathsep.join((str(tmp_path), str(Path(__file__).parents[2])))
    process = subprocess.Popen(
        started,
        env={**os.environ, "PYTHONPATH": path},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    process.stdout.readline()
    process.send_signal(number)
    _, said = process.communicate(timeout=30)
    assert process.returncode == INTERRUPTED
    assert said == "waiting: interrupted.\n"
