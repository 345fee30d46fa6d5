"""What an operator sees of a live server: readiness, a stall, one log line and one trace a request."""

import json
import os
import signal
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import Any

import httpx
import psutil
import pytest

from server.child import Server, running_server
from tests.http.collector import Collector, attributes, collecting
from tests.http.engine_core import core_of, stopped
from tests.http.servers import DOCUMENT, PASSAGE, PROMPT, QUESTION, SHARED, complete, metric, post, wait_until
from tests.support.forced import STEP_SECONDS
from tests.support.prose import document

pytest_plugins = ("tests.http.fixtures",)

STALL = 4
CHUNK = 32
CALLER_SPAN = "00f067aa0ba902b7"
LONG_PROMPT = f"{document(180, seed=3)}\n\n{QUESTION}"


def ready(server: Server) -> tuple[int, str]:
    """Status of `/ready`, and what it says."""
    response = server.get("/ready")
    return response.status_code, response.json()["status"]


def wait_until_ready_says(server: Server, wanted: tuple[int, str], seconds: float = 60) -> None:
    deadline = time.monotonic() + seconds
    while (found := ready(server)) != wanted:
        assert time.monotonic() < deadline, f"/ready says {found}, not {wanted}, after {seconds} s"
        time.sleep(0.2)


def test_a_server_that_answers_is_ready_and_says_so_in_its_metrics(server: Server) -> None:
    assert ready(server) == (200, "ready")
    assert metric(server, "ropeway_ready") == 1
    assert metric(server, "ropeway_seconds_since_progress") < 60
    refused = httpx.post(f"{server.url}/ready")
    assert (refused.status_code, refused.headers["Allow"]) == (405, "GET")


@pytest.fixture(scope="module")
def collector() -> Iterator[Collector]:
    with collecting() as started:
        yield started


@pytest.fixture(scope="module")
def observed(checkpoint: Path, collector: Collector) -> Iterator[Server]:
    """Slow steps, a short limit to a stall, traces and request logs."""
    arguments = [
        *(str(checkpoint), *SHARED),
        *("--max-num-batched-tokens", str(CHUNK), "--ready-stall-seconds", str(STALL)),
        *("--log-requests-json", "--otlp-traces-endpoint", collector.url),
    ]
    environment = {
        STEP_SECONDS: "0.1",
        "OTEL_EXPORTER_OTLP_TRACES_PROTOCOL": "http/protobuf",
        "OTEL_BSP_SCHEDULE_DELAY": "200",
    }
    with running_server(arguments, environment) as started:
        yield started


@pytest.mark.long
def test_a_stopped_engine_turns_ready_503_and_comes_back_with_its_request(observed: Server) -> None:
    with ThreadPoolExecutor() as pool:
        answer = pool.submit(complete, observed, PROMPT, max_tokens=60, cache_salt="stopped")
        wait_until(observed, "vllm:num_requests_running", 1)
        assert ready(observed) == (200, "ready")
        with stopped(core_of(observed)):
            wait_until_ready_says(observed, (503, "stalled"))
            assert observed.get("/health").status_code == 200  # stays green
            assert metric(observed, "ropeway_ready") == 0
            assert metric(observed, "ropeway_seconds_since_progress") > STALL
        wait_until_ready_says(observed, (200, "ready"))
        assert answer.result()["usage"]["completion_tokens"] == 60


@pytest.mark.long
def test_an_engine_that_stops_while_nothing_runs_is_noticed_too(observed: Server) -> None:
    with stopped(core_of(observed)):
        wait_until_ready_says(observed, (503, "stalled"))
    wait_until_ready_says(observed, (200, "ready"))


@pytest.mark.long
def test_a_long_prefill_is_no_stall(observed: Server) -> None:
    started = time.monotonic()
    with ThreadPoolExecutor() as pool:
        answer = pool.submit(complete, observed, LONG_PROMPT, max_tokens=1)
        while not answer.done():
            assert ready(observed) == (200, "ready")
            time.sleep(0.2)
    assert time.monotonic() - started > STALL + 2


def _traced(server: Server, trace_id: str, **fields: Any) -> dict[str, Any]:
    body = {"model": "tiny", "prompt": PROMPT, "max_tokens": 2, "cache_salt": trace_id, **fields}
    headers = {"traceparent": f"00-{trace_id}-{CALLER_SPAN}-01"}
    response = httpx.post(f"{server.url}/v1/completions", json=body, headers=headers, timeout=300)
    assert response.status_code == 200, response.text
    answer: dict[str, Any] = response.json()
    return answer


@pytest.mark.long
def test_both_passes_stand_in_the_callers_trace(observed: Server, collector: Collector) -> None:
    trace_id = "11112222333344445555666677778888"
    answer = _traced(observed, trace_id, qgpm=True)
    spans = collector.of(trace_id, "ropeway.qgpm", "ropeway.locate", "ropeway.score", "llm_request")
    whole = spans["ropeway.qgpm"]
    assert whole.parent_span_id.hex() == CALLER_SPAN
    for name in ("ropeway.locate", "ropeway.score", "llm_request"):
        assert spans[name].parent_span_id == whole.span_id
        assert spans[name].end_time_unix_nano <= whole.end_time_unix_nano + 1e9
    said = attributes(whole)
    assert said["ropeway.mode"] == "qgpm"
    assert said["ropeway.outcome"] == "success"
    assert said["ropeway.tokens.prompt"] == answer["usage"]["prompt_tokens"]
    assert isinstance(score := said["ropeway.seconds.score"], float)
    length = (spans["ropeway.score"].end_time_unix_nano - spans["ropeway.score"].start_time_unix_nano) / 1e9
    assert length == pytest.approx(score, abs=0.05)
    assert attributes(spans["llm_request"])["gen_ai.request.id"] == said["gen_ai.request.id"]


@pytest.mark.long
def test_evidence_has_no_score_span_and_a_plain_request_vllms_span_alone(
    observed: Server, collector: Collector
) -> None:
    trace_id = "21112222333344445555666677778888"
    _traced(observed, trace_id, qgpm={"evidence": [PASSAGE]})
    assert collector.of(trace_id, "ropeway.qgpm", "llm_request").keys() == {
        "ropeway.qgpm",
        "ropeway.locate",
        "llm_request",
    }
    trace_id = "31112222333344445555666677778888"
    _traced(observed, trace_id)
    spans = collector.of(trace_id, "llm_request")
    assert spans.keys() == {"llm_request"}
    assert spans["llm_request"].parent_span_id.hex() == CALLER_SPAN


@pytest.mark.long
def test_a_finished_request_is_one_line_of_json_without_its_text(observed: Server) -> None:
    answer = complete(observed, cache_salt="logged", qgpm=True)
    log = observed.log.read_text(errors="replace")
    lines = [json.loads(line) for line in log.splitlines() if line.startswith('{"time"')]
    (line,) = (line for line in lines if line["id"] == answer["id"])
    assert (line["mode"], line["outcome"]) == ("qgpm", "success")
    assert line["tokens"]["output"] == 4
    assert line["seconds"]["score"] > 0
    assert DOCUMENT[:40] not in log


@pytest.fixture
def own(checkpoint: Path) -> Iterator[Server]:
    """A server that the test ends."""
    arguments = [str(checkpoint), *SHARED, "--max-num-batched-tokens", str(CHUNK)]
    with running_server(arguments, {STEP_SECONDS: "0.1"}) as started:
        yield started


def _end(server: Server, number: signal.Signals) -> None:
    os.kill(server.pid, number)


@pytest.mark.long
def test_sigterm_lets_both_passes_finish_and_sends_others_elsewhere(own: Server) -> None:
    process = psutil.Process(own.pid)
    with ThreadPoolExecutor() as pool:
        answer = pool.submit(complete, own, PROMPT, max_tokens=20, qgpm=True)
        wait_until(own, "vllm:num_requests_running", 1)  # the score pass
        _end(own, signal.SIGTERM)
        wait_until_ready_says(own, (503, "draining"), seconds=2)
        refused = post(own, "/v1/completions", prompt=PROMPT, max_tokens=1)
        assert refused.status_code == 503
        assert int(refused.headers["Retry-After"]) > 0
        assert metric(own, "ropeway_ready") == 0
        done = answer.result()
    assert done["usage"]["completion_tokens"] == 20
    assert process.wait(timeout=30) == 0
    assert "Traceback" not in own.log.read_text(errors="replace")


@pytest.mark.long
def test_sigint_ends_at_once_and_tells_the_clients(own: Server) -> None:
    process = psutil.Process(own.pid)
    with ThreadPoolExecutor() as pool:
        answer = pool.submit(complete, own, PROMPT, max_tokens=2000)
        wait_until(own, "vllm:generation_tokens_total", 1)
        scored = pool.submit(post, own, "/v1/completions", prompt=LONG_PROMPT, qgpm=True)
        wait_until(own, "vllm:num_requests_running", 2)
        _end(own, signal.SIGINT)
        assert answer.result(timeout=20)["choices"][0]["finish_reason"] == "abort"
        assert scored.result(timeout=20).status_code == 503
    assert process.wait(timeout=30) == 0


@pytest.mark.long
def test_a_dead_engine_is_told_apart_and_ends_the_server_with_a_failure(own: Server) -> None:
    process = psutil.Process(own.pid)
    core_of(own).kill()
    said = {(200, "ready")}
    with suppress(httpx.TransportError):  # vLLM ends the server, within five seconds
        while process.is_running():
            said.add(ready(own))
            time.sleep(0.1)
    assert said <= {(200, "ready"), (503, "dead")}
    assert process.wait(timeout=60) == 1
