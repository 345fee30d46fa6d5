"""The whole measurement on the default model: a grid filled over HTTP, and what a second run does."""

import json
import math
import subprocess
import sys
import time
from pathlib import Path

import pytest

from loadtests.quality.methods import AS_SERVED, MAIN, METHODS, RANKED, SOURCES
from loadtests.quality.observations import read
from loadtests.quality.warping import BASELINES

pytestmark = [pytest.mark.long, pytest.mark.timeout(1800)]

SAMPLES = 2
MODES = {"plain": "plain", "top_k": "plain", "reorder": "plain", **dict.fromkeys(RANKED, "qgpm")}


def write_dataset(folder: Path) -> Path:
    """Samples in RULER's format, longer than a block of the cache and than the chunks that Top-K keeps."""
    lines = []
    for number in range(SAMPLES):
        days = [f"On day {day} the old miller carried {day + 2} sacks along the river." for day in range(60)]
        days[20 + number] = f"The secret number of the heron is {5210 + number}."
        prompt = f"Remember what the text says.\n{' '.join(days)}\nWhat is the secret number of the heron?"
        row = {"index": number, "input": prompt, "outputs": [str(5210 + number)], "length": 1200}
        lines.append(json.dumps(row))
    path = folder / "heron.jsonl"
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return path


def measure(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "loadtests.quality", "--dataset", str(folder / "heron.jsonl")]
    command += ["--minutes", "20", "--serve-flags=--enforce-eager", "--out", str(folder / "quality.jsonl")]
    return subprocess.run([*command, *arguments], capture_output=True, text=True, timeout=1500, check=False)


def test_a_grid_is_filled_once_and_a_second_run_has_nothing_to_do(tmp_path: Path) -> None:
    write_dataset(tmp_path)
    first = measure(tmp_path)
    assert first.returncode == 0, first.stderr
    run = read(tmp_path / "quality.jsonl")
    assert run.setting["model"] == "SmolLM2-135M-Instruct"
    cells = {(found.method, found.number) for found in run.observations}
    assert cells == {
        (method, number) for method in (*METHODS, *SOURCES, *BASELINES) for number in range(SAMPLES)
    }
    for found in run.observations:
        expected = "reference" if found.method in BASELINES else MODES.get(found.method, "evidence")
        if found.method == AS_SERVED and found.mode == "plain":
            assert found.reason == "guard"
        else:
            assert (found.mode, found.reason) == (expected, None)
        assert found.logprob < 0
        assert math.isfinite(found.logprob)
        assert found.method in BASELINES or found.cached_tokens > found.prompt_tokens // 2
        assert (found.evidence_rank is not None) == (found.method in RANKED)
    # What the methods change shows in the likelihood of the very same answer.
    by_method = {found.method: found.logprob for found in run.observations if found.number == 0}
    # The guard lets all of QGPM pass, or a part, or nothing.
    others = [method for method in MAIN if method != AS_SERVED]
    assert len({round(by_method[method], 2) for method in others}) == len(others)
    assert "heron" in first.stdout
    assert f"{len(run.observations)} observations" in first.stdout

    kept = (tmp_path / "quality.jsonl").read_bytes()
    started = time.monotonic()
    second = measure(tmp_path)
    assert second.returncode == 0, second.stderr
    assert time.monotonic() - started < 120  # no server was started
    assert (tmp_path / "quality.jsonl").read_bytes() == kept
    other = measure(tmp_path, "--seed", "1")
    assert other.returncode == 2
    assert "seed differ" in other.stderr
