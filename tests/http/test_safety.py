"""Limits over HTTP, and what is not told to anybody: neither in logs nor in errors."""

import itertools
import json
from concurrent.futures import ThreadPoolExecutor, as_completed
from itertools import islice
from typing import Any

import httpx
import pytest

from server.child import Server
from tests.http.engine_core import core_of, stopped
from tests.http.servers import (
    ADMIN_KEY,
    API_KEY,
    CROWDED_LIMITS,
    MODEL,
    PROMPT,
    QUESTION,
    chat,
    complete,
    metric,
    post,
    record,
    wait_until_idle,
)
from tests.support.prose import document

pytest_plugins = ("tests.http.fixtures",)

SECRET = "quetzalbrunnen"
JSON = {"Content-Type": "application/json", "Authorization": f"Bearer {API_KEY}"}
MANY_SENTENCES = f"{'Go! ' * 220}\n\nQuestion: Why?"
LONG_QUESTION = f"{document(4, seed=3)}\n\nQuestion: {'who saw the key of the ferry ' * 20}?"
MANY_PASSAGES = [f"Mr. {number}" for number in range(9)]

# `qgpm`, the prompt, the parameter that the error names, and what its message must hold.
EXCESSES: list[tuple[Any, str, str, list[str]]] = [
    ({"evidence": MANY_PASSAGES}, PROMPT, "qgpm.evidence", ["9 passages", "takes 8"]),
    ({"evidence": ["x" * 2_001]}, PROMPT, "qgpm.evidence", ["2001 characters", "takes 2000"]),
    (True, MANY_SENTENCES, "qgpm.context", ["220 sentences", "takes 200", "--max-sentences"]),
    (True, LONG_QUESTION, "qgpm.question", ["takes 128", "--max-question-tokens"]),
]


def _send(server: Server, path: str, body: Any) -> httpx.Response:
    """POST a body for the servers' model with everything escaped that is not ASCII, half surrogates too."""
    content = json.dumps({"model": MODEL, **body})
    return httpx.post(server.url + path, content=content, headers=JSON, timeout=300)


def _limited(server: Server, limit: str) -> float:
    return metric(server, "ropeway_limited_requests_total", limit=limit)


@pytest.mark.parametrize(
    ("qgpm", "prompt", "parameter", "parts"), EXCESSES, ids=lambda value: str(value)[:30]
)
def test_what_exceeds_a_limit_is_refused_by_field_limit_and_value(
    crowded: Server, qgpm: Any, prompt: str, parameter: str, parts: list[str]
) -> None:
    limit = {"qgpm.context": "document"}.get(parameter, parameter.removeprefix("qgpm."))
    before = _limited(crowded, limit)
    bodies: list[tuple[str, dict[str, Any]]] = [
        ("/v1/completions", {"prompt": prompt}),
        ("/v1/completions", {"prompt": prompt, "stream": True}),
        ("/v1/chat/completions", {"messages": [{"role": "user", "content": prompt}]}),
    ]
    if parameter != "qgpm.evidence":
        bodies.append(("/v1/qgpm/relevance", {"prompt": prompt}))
    for path, body in bodies:
        refused = post(crowded, path, **body, qgpm=qgpm, max_tokens=2)
        assert refused.status_code == 400, refused.text
        error = refused.json()["error"]
        assert (error["type"], error["param"]) == ("BadRequestError", parameter)
        assert all(part in error["message"] for part in parts), error["message"]
    assert _limited(crowded, limit) == before + len(bodies)


def test_beyond_a_limit_the_server_s_default_answers_plainly(crowded: Server) -> None:
    found = record(crowded, complete(crowded, MANY_SENTENCES))
    assert (found["mode"], found["outcome"]) == ("plain", "success")
    assert "--max-sentences" in found["reason"]
    assert record(crowded, complete(crowded, MANY_SENTENCES, qgpm=False))["mode"] == "plain"


def test_a_document_of_too_many_tokens_is_refused(crowded: Server) -> None:
    tokens = [
        post(crowded, "/tokenize", prompt=text, add_special_tokens=False).json()["tokens"]
        for text in (document(200, seed=5), f"\n\n{QUESTION}")
    ]
    prompt = [*tokens[0][:920], *tokens[1]]
    refused = post(crowded, "/v1/completions", prompt=prompt, qgpm=True, max_tokens=1)
    assert refused.status_code == 400
    assert "--max-document-tokens" in refused.json()["error"]["message"]


def test_evidence_needs_no_short_question(crowded: Server) -> None:
    answer = complete(crowded, LONG_QUESTION, qgpm={"evidence": [LONG_QUESTION.partition(". ")[0]]})
    assert record(crowded, answer)["mode"] == "evidence"


@pytest.mark.parametrize("path", ["/v1/completions", "/tokenize", "/v1/qgpm/relevance"])
def test_a_large_body_is_refused_unread(crowded: Server, path: str) -> None:
    most = CROWDED_LIMITS["--max-body-bytes"]
    before = _limited(crowded, "body")
    content = json.dumps({"model": MODEL, "prompt": "x" * most}).encode()
    refused = httpx.post(crowded.url + path, content=content, headers=JSON, timeout=60)
    assert refused.status_code == 413
    assert refused.json()["error"]["param"] == "body"
    parts = itertools.repeat(b" " * 8_192, 20)
    assert httpx.post(crowded.url + path, content=parts, headers=JSON, timeout=60).status_code == 413
    assert _limited(crowded, "body") == before + 2


def test_more_score_passes_at_a_time_than_a_key_has_are_told_to_wait(crowded: Server) -> None:
    most = CROWDED_LIMITS["--max-score-passes"]
    before = _limited(crowded, "score_passes")
    text = document(40, seed=77)

    def ask(number: int) -> httpx.Response:
        salted: dict[str, Any] = {"cache_salt": f"crowd {number}", "stream": number % 2 == 1}
        prompt = f"{text}\n\n{QUESTION}"
        return post(crowded, "/v1/completions", prompt=prompt, qgpm=True, max_tokens=2, **salted)

    with ThreadPoolExecutor(4 * most) as pool:
        with stopped(core_of(crowded)):  # so that no place is given back before all have asked
            asked = [pool.submit(ask, number) for number in range(4 * most)]
            waiting = [future.result() for future in islice(as_completed(asked), 3 * most)]
        answers = [future.result() for future in asked]
    assert {answer.status_code for answer in waiting} == {429}
    assert sum(answer.status_code == 200 for answer in answers) == most
    for answer in waiting:
        assert int(answer.headers["retry-after"]) >= 1
        error = answer.json()["error"]
        assert (error["type"], error["param"], error["code"]) == ("TooManyRequestsError", "qgpm", 429)
    assert _limited(crowded, "score_passes") == before + len(waiting)
    wait_until_idle(crowded)
    for number in range(most + 1):  # every place was given back
        assert ask(1000 + 2 * number).status_code == 200


def test_remembered_relevance_takes_no_place(crowded: Server) -> None:
    asked: dict[str, Any] = {"prompt": PROMPT, "qgpm": True, "max_tokens": 2, "cache_salt": "remembered"}
    assert post(crowded, "/v1/completions", **asked).status_code == 200
    most = CROWDED_LIMITS["--max-score-passes"]
    with ThreadPoolExecutor(3 * most) as pool:
        again = pool.map(lambda _: post(crowded, "/v1/completions", **asked), range(3 * most))
        assert {answer.status_code for answer in again} == {200}


FORGED = {"ropeway_modulation": "1"}


@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("/v1/responses", {"input": PROMPT, "vllm_xargs": FORGED}),
        (
            "/v1/messages",
            {"messages": [{"role": "user", "content": PROMPT}], "max_tokens": 2, "vllm_xargs": FORGED},
        ),
        (
            "/v1/chat/completions/batch",
            {"messages": [[{"role": "user", "content": PROMPT}]], "vllm_xargs": FORGED},
        ),
        ("/invocations", {"prompt": PROMPT, "vllm_xargs": FORGED}),
    ],
)
def test_no_other_door_takes_forged_arguments(server: Server, path: str, body: dict[str, Any]) -> None:
    refused = _send(server, path, body)
    assert refused.status_code == 400, refused.text
    assert "ropeway_modulation is a name that only the server may set" in refused.text


@pytest.mark.parametrize(
    ("fields", "parameter"),
    [
        ({"request_id": "\ud800"}, "request_id"),
        ({"cache_salt": "salt \udfff"}, "body.cache_salt"),  # vLLM's own refusal
        ({"rope": {"\ud800": 1}}, "rope.\\ud800"),
        ({"qgpm": {"\ud800": 1}}, "qgpm"),
        ({"qgpm": {"question": "Who\ud800?"}}, "qgpm.question"),
        ({"qgpm": {"evidence": ["\ud800"]}}, "qgpm.evidence[0]"),
    ],
    ids=str,
)
def test_half_of_a_surrogate_pair_is_refused_by_name(
    server: Server, fields: dict[str, Any], parameter: str
) -> None:
    bodies: dict[str, dict[str, Any]] = {
        "/v1/completions": {"prompt": PROMPT},
        "/v1/chat/completions": {"messages": [{"role": "user", "content": PROMPT}]},
    }
    for path, body in bodies.items():
        refused = _send(server, path, {**body, **fields, "max_tokens": 2})
        assert refused.status_code == 400, refused.text
        assert refused.json()["error"]["param"] == parameter


TOLD = f"The {SECRET} stood open. {document(5, seed=41)}\n\nQuestion: Who saw the {SECRET}?"
# Of a chat or a completion: answered or refused, each with the secret in some text of the client's.
ODD_FIELDS: list[dict[str, Any]] = [
    {},
    {"qgpm": True},
    {"qgpm": {"question": f"Who saw the {SECRET}?"}},
    {"qgpm": {"question": SECRET * 3}},
    {"qgpm": {"evidence": [f"The {SECRET} stood open."]}},
    {"qgpm": {"evidence": [f"No {SECRET}."]}},
    {"qgpm": {"evidence": SECRET}},
    {"qgpm": {"context": [SECRET]}},
    {"qgpm": {"k_sharp": SECRET}},
    {"qgpm": SECRET},
    {"rope": {"base": SECRET}},
    {"rope": {"scaling": {"rope_type": SECRET}}},
    {"vllm_xargs": {"ropeway_first": SECRET}},
    {"stop": [SECRET], "qgpm": True},
    {"logit_bias": {SECRET: 1}},
    {"temperature": SECRET},
    {"response_format": {"type": SECRET}},
    {"chat_template_kwargs": {"x": SECRET}},
    {"cache_salt": f"{SECRET}\ud800", "qgpm": True},
    {"an_unknown_field": SECRET},
    {"max_tokens": 10**9, "qgpm": True},
]
ODD_BODIES: list[tuple[str, dict[str, Any]]] = [
    ("/v1/completions", {"prompt": SECRET * 10_000}),
    ("/v1/completions", {"prompt": f"{SECRET}\ud800"}),
    ("/v1/completions", {"prompt": f"{SECRET}\0. {SECRET}.", "qgpm": True}),
    ("/v1/completions", {"prompt": {SECRET: 1}}),
    ("/v1/chat/completions", {"messages": SECRET}),
    ("/v1/chat/completions", {"messages": [{"role": "user", "content": f"{SECRET}\ud800"}]}),
    ("/v1/chat/completions", {"messages": [{"role": "user", "content": [{"type": SECRET}]}]}),
    ("/v1/qgpm/relevance", {"prompt": TOLD}),
    ("/v1/qgpm/relevance", {"prompt": TOLD, "n": SECRET}),
    ("/v1/responses", {"input": TOLD, "qgpm": SECRET}),
    ("/tokenize", {"prompt": TOLD}),
]
WRONG_KEY = "wrong-key-of-the-tests-55d0"


def _send_oddities(server: Server) -> None:
    messages = [{"role": "user", "content": TOLD}]
    for stream, fields in itertools.product((False, True), ODD_FIELDS):
        limits = {"max_tokens": 2, "stream": stream}
        _send(server, "/v1/completions", {**limits, "prompt": TOLD, **fields})
        _send(server, "/v1/chat/completions", {**limits, "messages": messages, **fields})
    for path, body in ODD_BODIES:
        _send(server, path, {"max_tokens": 2, **body})
    for content in (f'{{"prompt": "{SECRET}', f"[{SECRET}]", SECRET * 10_000):
        httpx.post(f"{server.url}/v1/completions", content=content, headers=JSON)
    unknown = {"Authorization": f"Bearer {WRONG_KEY}"}
    for headers in (unknown, {**JSON, "X-Admin-Key": WRONG_KEY}, {**JSON, "X-Admin-Key": ADMIN_KEY}):
        for content in (f'{{"{SECRET}": 1}}', SECRET):
            httpx.put(f"{server.url}/v1/positional/profile", content=content, headers=headers)
    wait_until_idle(server)


def test_no_log_tells_a_prompt_evidence_or_a_key(crowded: Server) -> None:
    """Of a server as users start one; vLLM's development mode, as in the other one, logs what it refuses."""
    _send_oddities(crowded)
    lines = crowded.log.read_text(errors="replace").splitlines()
    secrets = (SECRET, API_KEY, ADMIN_KEY, WRONG_KEY)
    told = [line for line in lines if any(secret in line for secret in secrets)]
    assert not told, told[:5]
    assert any("/v1/completions" in line for line in lines)


def test_a_record_tells_no_text(server: Server) -> None:
    for qgpm in (True, {"evidence": [f"The {SECRET} stood open."]}):
        assert SECRET not in json.dumps(record(server, complete(server, TOLD, qgpm=qgpm)))
    assert SECRET not in json.dumps(record(server, chat(server, [{"role": "user", "content": TOLD}])))
    for path in ("/metrics", "/v1/cache", "/v1/positional"):
        assert SECRET not in server.get(path).text


@pytest.mark.parametrize(
    "qgpm",
    [
        {"question": f"Who saw the {SECRET}?"},
        {"context": f"The {SECRET}."},
        {"evidence": [f"The {SECRET}."]},
        {"evidence": SECRET},
        {"evidence": {"text": SECRET}},
        {"k_sharp": f"{SECRET} and more"},
        f"{SECRET} and more",
    ],
    ids=str,
)
def test_no_error_of_ours_repeats_a_text(server: Server, qgpm: Any) -> None:
    refused = post(server, "/v1/completions", prompt=PROMPT, qgpm=qgpm)
    assert refused.status_code == 400
    assert SECRET not in refused.text
