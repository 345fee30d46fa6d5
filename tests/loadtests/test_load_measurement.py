"""The measurement itself: what a server with known delays is said to take, by the whole command."""

import json
import os
import signal
import socket
import statistics
import subprocess
import sys
import time
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from loadtests.load.command import main
from tests.loadtests.known_server import PROMPT_TOKENS, Known, serving

FIRST_TOKEN = 0.5
PER_TOKEN = 0.05
TOKENS = 5
SECONDS = FIRST_TOKEN + (TOKENS - 1) * PER_TOKEN
WITHIN = 0.05


def _command(url: str, out: Path, *options: str) -> list[str]:
    plain = ["--url", url, "--scenario", "plain", "--max-tokens", str(TOKENS), "--out", str(out)]
    return [sys.executable, "-m", "loadtests.load", *plain, *options]


def _measured(known: Known, folder: Path, *options: str) -> dict[str, Any]:
    out = folder / "load.json"
    with serving(known) as url:
        done = subprocess.run(_command(url, out, *options), capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    content: dict[str, Any] = json.loads(out.read_text())
    return {**content, "printed": done.stdout}


@pytest.fixture(scope="module")
def steady(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """Four at a time on a server whose answers all take the same, but for the first four of each kind."""
    known = Known(FIRST_TOKEN, PER_TOKEN, slow=range(1, 5), cached=125)
    folder = tmp_path_factory.mktemp("steady")
    return _measured(known, folder, "--arrival", "concurrency=4", "--requests", "32")


@pytest.fixture(scope="module")
def uneven(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """Eight a second, 45 counted: 3 of them are slow, 3 fail."""
    failing = dict.fromkeys((15, 30, 45), "busy")
    known = Known(FIRST_TOKEN, PER_TOKEN, slow=(10, 20, 40), failing=failing)
    objective = ("--ttft-slo", "0.75", "--tpot-slo", "0.2")
    folder = tmp_path_factory.mktemp("uneven")
    return _measured(known, folder, "--arrival", "constant=8", "--requests", "45", *objective)


def test_the_first_token_is_the_first_delta_with_text(steady: dict[str, Any]) -> None:
    [line] = steady["scenarios"]
    for which in ("mean", "p50"):
        assert line["ttft"][which] == pytest.approx(FIRST_TOKEN, rel=WITHIN)


def test_times_of_later_tokens_and_of_whole_answers_are_the_known_ones(steady: dict[str, Any]) -> None:
    [line] = steady["scenarios"]
    assert line["tpot"]["mean"] == pytest.approx(PER_TOKEN, rel=WITHIN)
    assert line["itl"]["mean"] == pytest.approx(PER_TOKEN, rel=WITHIN)
    assert line["e2e"]["mean"] == pytest.approx(SECONDS, rel=WITHIN)


def test_the_rate_of_a_constant_number_at_a_time_is_that_number_by_the_seconds_of_an_answer(
    steady: dict[str, Any],
) -> None:
    [line] = steady["scenarios"]
    assert line["requests"] == 32
    assert line["requests_per_second"] == pytest.approx(4 / SECONDS, rel=WITHIN)
    assert line["output_tokens_per_second"] == pytest.approx(4 * TOKENS / SECONDS, rel=WITHIN)


def test_the_warm_up_is_reported_and_not_counted(steady: dict[str, Any]) -> None:
    [line] = steady["scenarios"]
    warm_up = line["warm_up"]
    assert (warm_up["requests"], warm_up["errors"]) == (4, 0)
    assert 2 * SECONDS <= warm_up["seconds"] < 3 * SECONDS


def test_the_hit_rate_is_what_usage_says(steady: dict[str, Any]) -> None:
    [line] = steady["scenarios"]
    assert (line["hit_rate"], line["hit_rate_from"]) == (125 / PROMPT_TOKENS, "usage")


def test_means_hold_the_slow_answers_and_medians_do_not(uneven: dict[str, Any]) -> None:
    [line] = uneven["scenarios"]
    assert line["requests"] == 42
    assert line["ttft"]["p50"] == pytest.approx(FIRST_TOKEN, rel=WITHIN)
    assert line["ttft"]["mean"] == pytest.approx(FIRST_TOKEN * (39 + 3 * 2) / 42, rel=WITHIN)
    assert line["ttft"]["p99"] == pytest.approx(2 * FIRST_TOKEN, rel=WITHIN)


def test_the_rate_of_answers_is_the_rate_of_arrivals_without_the_failed(uneven: dict[str, Any]) -> None:
    [line] = uneven["scenarios"]
    assert line["errors"] == {"HTTP 503": 3}
    assert line["requests_per_second"] == pytest.approx(8 * 42 / 45, rel=WITHIN)


def test_goodput_counts_answers_within_the_objective_alone(uneven: dict[str, Any]) -> None:
    [line] = uneven["scenarios"]
    assert line["goodput"]["objective"] == {"ttft_s": 0.75, "tpot_s": 0.2}
    assert line["goodput"]["share"] == 39 / 45
    assert line["goodput"]["requests_per_second"] == pytest.approx(8 * 39 / 45, rel=WITHIN)


def test_a_server_that_tells_nothing_of_its_cache_has_no_hit_rate(uneven: dict[str, Any]) -> None:
    [line] = uneven["scenarios"]
    assert (line["hit_rate"], line["hit_rate_from"], line["cache_bytes"]) == (None, None, None)


def test_it_ends_with_a_table_and_the_errors_by_kind(uneven: dict[str, Any]) -> None:
    row = next(line for line in uneven["printed"].splitlines() if "plain" in line)
    for cell in ("constant, 8/s", "42", "87%"):
        assert cell in row
    assert "errors of plain, constant, 8/s: 3 of HTTP 503" in uneven["printed"]


def test_poisson_arrivals_are_uneven_and_constant_ones_are_not(tmp_path: Path) -> None:
    known = Known(0.01, 0.001)
    arrivals = ("--arrival", "constant=20", "--arrival", "poisson=20", "--nonce", "known")
    content = _measured(known, tmp_path, *arrivals, "--requests", "40")
    constant, poisson = (_unevenness(known.arrivals[start : start + 44]) for start in (0, 44))
    assert [line["arrival"]["kind"] for line in content["scenarios"]] == ["constant", "poisson"]
    assert constant < 0.4 < 0.6 < poisson


def _unevenness(arrivals: list[float]) -> float:
    """Standard deviation of the gaps over their mean: 0 for even ones, 1 for Poisson's."""
    gaps = [after - before for before, after in pairwise(sorted(arrivals))]
    return statistics.stdev(gaps) / statistics.mean(gaps)


def test_errors_are_counted_by_their_kind(tmp_path: Path) -> None:
    known = Known(0.01, 0.001, failing={2: "busy", 3: "error", 4: "silent"})
    options = ("--arrival", "concurrency=1", "--warm-up", "1", "--requests", "5")
    [line] = _measured(known, tmp_path, *options)["scenarios"]
    assert line["requests"] == 2
    assert line["errors"] == {"HTTP 503": 1, "in the stream: the engine died": 1, "no text": 1}


def test_completions_are_measured_where_there_is_no_chat(tmp_path: Path) -> None:
    known = Known(FIRST_TOKEN, PER_TOKEN, refused=("messages",))
    options = ("--arrival", "concurrency=2", "--warm-up", "2", "--requests", "4")
    content = _measured(known, tmp_path, *options)
    assert content["setting"]["endpoint"] == "/v1/completions"
    [line] = content["scenarios"]
    assert line["ttft"]["mean"] == pytest.approx(FIRST_TOKEN, rel=WITHIN)
    assert line["tpot"]["mean"] == pytest.approx(PER_TOKEN, rel=WITHIN)


def test_an_interrupted_run_keeps_and_prints_what_had_ended(tmp_path: Path) -> None:
    known = Known(0.05, 0.01)
    out = tmp_path / "load.json"
    with serving(known) as url:
        command = _command(url, out, "--arrival", "concurrency=2", "--minutes", "10")
        process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, start_new_session=True)
        while len(known.bodies) < 20 and process.poll() is None:
            time.sleep(0.05)
        os.killpg(process.pid, signal.SIGINT)  # as a terminal does: to the workers too
        printed, _ = process.communicate(timeout=60)
    assert process.returncode == 128 + signal.SIGINT
    content = json.loads(out.read_text())
    [line] = content["scenarios"]
    assert content["interrupted"]
    assert 10 <= line["requests"] < len(known.bodies)
    assert line["errors"] == {}
    assert "Interrupted" in printed
    assert "2 at a time" in printed


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_server_that_says_nothing_can_be_interrupted(tmp_path: Path, number: signal.Signals) -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        command = _command(f"http://127.0.0.1:{silent.getsockname()[1]}", tmp_path / "load.json")
        process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True, start_new_session=True)
        connection, _ = silent.accept()
        with connection:
            connection.recv(1)
            os.killpg(process.pid, number)
            _, said = process.communicate(timeout=60)
    assert process.returncode == 128 + signal.SIGINT
    assert "loadtests.load: interrupted" in said
    assert "Traceback" not in said


def test_a_file_that_cannot_be_written_is_refused_before_the_work(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["--url", "http://127.0.0.1:9", "--out", str(tmp_path)]) == 1
    assert "is no file" in capsys.readouterr().err
