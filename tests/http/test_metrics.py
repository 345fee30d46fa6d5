"""Metrics count user requests: both passes inside one observation."""

from typing import Any

import pytest

from server.child import Server
from server.likelihood import force
from tests.http.servers import PASSAGE, PROMPT, metric, post, wait_until_idle
from tests.http.streams import streaming

pytest_plugins = ("tests.http.fixtures",)

MODES = {"plain": False, "qgpm": True, "evidence": {"evidence": [PASSAGE]}}


def _counts(server: Server, mode: str) -> dict[str, float]:
    return {
        "requests": metric(server, "ropeway_requests_total", mode=mode, outcome="success"),
        "all requests": metric(server, "ropeway_requests_total"),
        "first tokens": metric(server, "ropeway_ttft_seconds_count", mode=mode),
        "scores": metric(server, "ropeway_stage_seconds_count", stage="score"),
        "collected": metric(server, "ropeway_stage_seconds_count", stage="collect"),
        "maps": metric(server, "ropeway_stage_seconds_count", stage="maps"),
        "answers": metric(server, "ropeway_stage_seconds_count", stage="answer"),
        "vLLM's successes": metric(server, "vllm:request_success_total"),
        "vLLM's first tokens": metric(server, "vllm:time_to_first_token_seconds_count"),
        "vLLM's prompt tokens": metric(server, "vllm:request_prompt_tokens_count"),
        "vLLM's output tokens": metric(server, "vllm:generation_tokens_total"),
    }


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("mode", MODES)
def test_a_user_request_is_counted_once(server: Server, mode: str, stream: bool) -> None:
    body: dict[str, Any] = {
        "max_tokens": 5,
        "ignore_eos": True,
        "stream": stream,
        "qgpm": MODES[mode],
        "cache_salt": f"counted {stream}",
    }
    before = _counts(server, mode)
    assert post(server, "/v1/completions", prompt=PROMPT, **body).status_code == 200
    after = _counts(server, mode)
    assert {name: after[name] - before[name] for name in after} == {
        "requests": 1,
        "all requests": 1,
        "first tokens": 1,
        "scores": mode == "qgpm",
        "collected": mode == "qgpm",
        "maps": mode != "plain",
        "answers": 1,
        "vLLM's successes": 1,
        "vLLM's first tokens": 1,
        "vLLM's prompt tokens": 1,
        "vLLM's output tokens": 5,
    }


@pytest.mark.parametrize("stream", [False, True])
def test_the_time_to_the_first_token_holds_both_passes(server: Server, stream: bool) -> None:
    def seconds() -> tuple[float, float, float]:
        return (
            metric(server, "ropeway_ttft_seconds_sum", mode="qgpm"),
            metric(server, "vllm:time_to_first_token_seconds_sum"),
            metric(server, "ropeway_stage_seconds_sum", stage="score"),
        )

    before = seconds()
    body = {
        "max_tokens": 8,
        "ignore_eos": True,
        "qgpm": True,
        "cache_salt": f"ttft {stream}",
        "stream": stream,
    }
    assert post(server, "/v1/completions", prompt=PROMPT, **body).status_code == 200
    ours, theirs, score = (b - a for a, b in zip(before, seconds(), strict=True))
    assert ours > score > 0
    assert theirs > score
    assert ours == pytest.approx(theirs, abs=0.05)


@pytest.mark.parametrize(
    ("asked", "relevance", "memo"),
    [
        (False, "none", "none"),
        (True, "heads", "miss"),
        (True, "heads", "hit"),
        (MODES["evidence"], "caller", "none"),
    ],
)
def test_the_first_token_is_counted_by_where_relevance_came_from(
    server: Server, asked: object, relevance: str, memo: str
) -> None:
    mode = {"none": "plain", "heads": "qgpm", "caller": "evidence"}[relevance]
    labels = {"mode": mode, "relevance": relevance, "memo": memo}
    body = {"prompt": PROMPT, "max_tokens": 2, "qgpm": asked, "cache_salt": f"labels of {relevance} {memo}"}
    if memo == "hit":
        post(server, "/v1/completions", **body)
    before = metric(server, "ropeway_ttft_seconds_count", **labels)
    assert post(server, "/v1/completions", **body).status_code == 200
    assert metric(server, "ropeway_ttft_seconds_count", **labels) == before + 1


@pytest.mark.parametrize(
    ("path", "fields", "reason"),
    [
        ("/v1/completions", {"qgpm": {"k_sharp": 0}}, "qgpm"),
        ("/v1/completions", {"qgpm": {"question": "Who sailed to the moon?"}}, "text"),
        ("/v1/completions", {"rope": {"base": 0}}, "rope"),
        ("/v1/completions", {"vllm_xargs": {"ropeway_first": 1}}, "forged"),
        ("/v1/qgpm/relevance", {"stream": True}, "other"),
        ("/tokenize", {"qgpm": True}, "endpoint"),
    ],
)
def test_a_refusal_is_counted_once_by_its_reason(
    server: Server, path: str, fields: dict[str, Any], reason: str
) -> None:
    def counts() -> tuple[float, float]:
        name = "ropeway_refused_requests_total"
        return metric(server, name, reason=reason), metric(server, name)

    before = counts()
    assert post(server, path, prompt=PROMPT, **fields).status_code == 400
    assert counts() == (before[0] + 1, before[1] + 1)


def test_a_running_request_is_shown_by_the_rule_it_goes_by(server: Server) -> None:
    wait_until_idle(server)
    for fields, profile in (({}, "default"), ({"rope": {"base": 20000}}, "own")):
        with streaming(server, PROMPT, **force([7] * 500), **fields) as chunks:
            next(chunks)
            assert metric(server, "ropeway_running_requests", profile=profile) == 1
        wait_until_idle(server)
        assert metric(server, "ropeway_running_requests") == 0


def test_a_request_for_relevance_is_no_answered_request(server: Server) -> None:
    before = _counts(server, "qgpm")
    assert post(server, "/v1/qgpm/relevance", prompt=PROMPT).status_code == 200
    assert _counts(server, "qgpm") == before


def test_outcomes_and_modes_are_the_documented_ones(server: Server) -> None:
    from prometheus_client.parser import text_string_to_metric_families

    families = text_string_to_metric_families(server.get("/metrics").text)
    samples = [s for f in families for s in f.samples if s.name == "ropeway_requests_total"]
    assert {sample.labels["mode"] for sample in samples} <= {"plain", "qgpm", "evidence"}
    assert {sample.labels["outcome"] for sample in samples} <= {"success", "aborted", "error", "rejected"}
