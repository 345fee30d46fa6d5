"""Bad input is refused by name in OpenAI's shape, and what cannot be had by default is answered plainly."""

import base64
import io
import json
from typing import Any

import httpx
import pytest
import torch

from server.child import Server
from tests.http.servers import (
    DOCUMENT,
    MODEL,
    PASSAGE,
    PROMPT,
    QUESTION,
    chat,
    complete,
    metric,
    post,
    record,
    relevance,
)
from tests.support.prose import document

pytest_plugins = ("tests.http.fixtures",)

# `qgpm` as sent, the parameter that the error names, and what its message must hold.
BAD_FIELDS: list[tuple[Any, str, list[str]]] = [
    ({"question": "Who sailed to the moon?"}, "qgpm.question", ["does not occur in the prompt"]),
    ({"context": "A text from elsewhere."}, "qgpm.context", ["does not occur in the prompt"]),
    ({"evidence": ["Mr. Harding", "moon dust"]}, "qgpm.evidence[1]", ["does not occur in the context"]),
    ({"evidence": ["Who hid the lighthouse key?"]}, "qgpm.evidence[0]", ["does not occur in the context"]),
    ({"k_bread": 4}, "qgpm.k_bread", ["unknown", "k_broad"]),
    ({"evidence": [{"text": "Mr. Harding", "weight": 1}]}, "qgpm.evidence[0].weight", ["unknown", "score"]),
    ({"k_broad": 2, "k_sharp": 2}, "qgpm.k_broad", ["greater than k_sharp", "2"]),
    ({"k_broad": 2, "k_sharp": 5}, "qgpm.k_broad", ["greater than k_sharp (5)", "2"]),
    ({"k_sharp": 0}, "qgpm.k_sharp", ["at least 1", "0"]),
    ({"k_sharp": -3}, "qgpm.k_sharp", ["at least 1", "-3"]),
    ({"k_broad": 1}, "qgpm.k_broad", ["2", "1"]),
    ({"k_broad": 2.5}, "qgpm.k_broad", ["integer", "2.5"]),
    ({"k_sharp": "1"}, "qgpm.k_sharp", ["integer", "'1'"]),
    ({"k_sharp": True}, "qgpm.k_sharp", ["integer", "True"]),
    ({"k_broad": 10**30}, "qgpm.k_broad", ["got 1000"]),
    ({"t_broad": -0.1}, "qgpm.t_broad", ["at least 0", "-0.1"]),
    ({"t_sharp": -1}, "qgpm.t_sharp", ["at least 0", "-1"]),
    ({"t_sharp": True}, "qgpm.t_sharp", ["number", "True"]),
    ({"t_sharp": "hot"}, "qgpm.t_sharp", ["number", "hot"]),
    ({"score_low": 1}, "qgpm.score_low", ["[0, 1)", "1"]),
    ({"score_low": -0.01}, "qgpm.score_low", ["[0, 1)", "-0.01"]),
    ({"stride_floor": 0}, "qgpm.stride_floor", ["(0, 1]", "0"]),
    ({"stride_floor": 1.01}, "qgpm.stride_floor", ["(0, 1]", "1.01"]),
    ({"anchor_ratio": 0}, "qgpm.anchor_ratio", ["above 0", "0"]),
    ({"gate_width": 0}, "qgpm.gate_width", ["above 0", "0"]),
    ({"gate_width": -2}, "qgpm.gate_width", ["above 0", "-2"]),
    ({"evidence": []}, "qgpm.evidence", ["at least 1"]),
    ({"evidence": "Mr. Harding"}, "qgpm.evidence", ["list"]),
    ({"evidence": ["Mr. Harding"] * 1001}, "qgpm.evidence", ["1001 passages", "takes 1000"]),
    ({"evidence": [""]}, "qgpm.evidence[0].text", ["blank"]),
    ({"evidence": [7]}, "qgpm.evidence[0]", ["text", "7"]),
    ({"evidence": [None]}, "qgpm.evidence[0]", ["text", "None"]),
    ({"evidence": [{"score": 1}]}, "qgpm.evidence[0].text", ["missing"]),
    ({"evidence": [{"text": "Mr. Harding", "score": "high"}]}, "qgpm.evidence[0].score", ["of 4 char"]),
    ({"question": " \n"}, "qgpm.question", ["blank"]),
    ({"question": 3}, "qgpm.question", ["string", "3"]),
    ({"context": ""}, "qgpm.context", ["blank"]),
    ({"context": ["a"]}, "qgpm.context", ["string"]),
    ("on", "qgpm", ["true, false, null or an object", "on"]),
    (1, "qgpm", ["true, false, null or an object", "1"]),
    ([], "qgpm", ["true, false, null or an object"]),
]  # fmt: skip


def _assert_refused(response: httpx.Response, parameter: str, parts: list[str]) -> None:
    assert response.status_code == 400, response.text
    error = response.json()["error"]
    assert set(error) == {"message", "type", "param", "code"}
    assert (error["type"], error["code"], error["param"]) == ("BadRequestError", 400, parameter)
    missing = [part for part in [parameter, *parts] if part not in error["message"]]
    assert not missing, error["message"]


@pytest.mark.parametrize(("qgpm", "parameter", "parts"), BAD_FIELDS, ids=lambda value: str(value)[:60])
def test_a_bad_field_is_refused_by_name_limit_and_value(
    server: Server, qgpm: Any, parameter: str, parts: list[str]
) -> None:
    messages = [{"role": "user", "content": PROMPT}]
    bodies: list[tuple[str, dict[str, Any]]] = [
        ("/v1/chat/completions", {"messages": messages}),
        ("/v1/chat/completions", {"messages": messages, "stream": True}),
        ("/v1/completions", {"prompt": PROMPT}),
        ("/v1/completions", {"prompt": PROMPT, "stream": True}),
    ]
    for path, body in bodies:
        _assert_refused(post(server, path, **body, qgpm=qgpm), parameter, parts)
    assert complete(server, qgpm=True)["usage"]["completion_tokens"] == 4


@pytest.mark.parametrize("number", ["NaN", "Infinity", "-Infinity", "1e999"])
@pytest.mark.parametrize("field", ["t_broad", "anchor_ratio"])
def test_numbers_that_are_not_finite_are_refused(server: Server, field: str, number: str) -> None:
    body = json.dumps({"model": MODEL, "prompt": PROMPT, "qgpm": {field: "HERE"}}).replace('"HERE"', number)
    headers = {"Content-Type": "application/json"}
    response = httpx.post(f"{server.url}/v1/completions", content=body, headers=headers)
    _assert_refused(response, f"qgpm.{field}", ["finite"])


def test_null_inside_the_object_means_the_default(server: Server) -> None:
    names = (
        "question", "context", "evidence", "k_broad", "t_broad", "k_sharp", "t_sharp", "score_low",
        "stride_floor", "anchor_ratio", "gate_width",
    )  # fmt: skip
    default = record(server, complete(server, qgpm=True))
    nulls = record(server, complete(server, qgpm=dict.fromkeys(names)))
    assert nulls["mode"] == default["mode"] == "qgpm"
    assert [row["rank"] for row in nulls["top"]] == [row["rank"] for row in default["top"]]
    assert [row["broad"] for row in nulls["top"]] == pytest.approx([row["broad"] for row in default["top"]])


def test_an_unset_k_moves_along(server: Server) -> None:
    assert record(server, complete(server, qgpm={"k_sharp": 20}))["mode"] == "qgpm"
    assert record(server, complete(server, qgpm={"k_broad": 2}))["mode"] == "qgpm"


def test_one_bad_prompt_refuses_the_body(server: Server) -> None:
    other = f"{document(6, seed=3)}\n\n{QUESTION}"
    qgpm = {"context": DOCUMENT}
    assert len(complete(server, [PROMPT, PROMPT], qgpm=qgpm)["choices"]) == 2
    for prompts in ([PROMPT, other], [other, PROMPT]):
        for stream in (False, True):
            response = post(server, "/v1/completions", prompt=prompts, qgpm=qgpm, stream=stream)
            _assert_refused(response, "qgpm.context", ["does not occur"])


def test_forged_arguments_are_refused(server: Server) -> None:
    for name in ("ropeway_modulation", "ropeway_score_task", "ropeway_first", "ropeway_arrival", "ropeway_x"):
        for path, body in (
            ("/v1/completions", {"prompt": PROMPT}),
            ("/v1/completions", {"prompt": PROMPT, "stream": True, "qgpm": True}),
            ("/v1/chat/completions", {"messages": [{"role": "user", "content": PROMPT}]}),
        ):
            response = post(server, path, **body, vllm_xargs={name: "1"})
            _assert_refused(response, "vllm_xargs", [name])
    assert complete(server)["usage"]["completion_tokens"] == 4


def test_beam_search_is_refused_with_qgpm_and_served_without(server: Server) -> None:
    beam = {"use_beam_search": True, "n": 2, "max_tokens": 2}
    for path, body in (
        ("/v1/completions", {"prompt": PROMPT}),
        ("/v1/chat/completions", {"messages": [{"role": "user", "content": PROMPT}]}),
    ):
        _assert_refused(post(server, path, **body, **beam, qgpm=True), "qgpm", ["beam search"])
        assert post(server, path, **body, **beam).status_code == 200
        assert post(server, path, **body, **beam, qgpm=False).status_code == 200


@pytest.mark.parametrize("name", ["qgpm", "rope"])
@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("/v1/responses", {"input": PROMPT}),
        ("/v1/messages", {"messages": [{"role": "user", "content": PROMPT}], "max_tokens": 4}),
        ("/tokenize", {"prompt": PROMPT}),
        ("/detokenize", {"tokens": [5, 6]}),
    ],
)
def test_other_endpoints_refuse_our_fields_by_name(
    server: Server, path: str, body: dict[str, Any], name: str
) -> None:
    _assert_refused(post(server, path, **body, **{name: True}), name, [path])
    assert post(server, path, **body).status_code == 200


def test_an_escaped_name_is_the_same_name(server: Server) -> None:
    body = f'{{"model": "{MODEL}", "prompt": "text", "\\u0071gpm": true}}'
    headers = {"Content-Type": "application/json"}
    _assert_refused(
        httpx.post(f"{server.url}/tokenize", content=body, headers=headers), "qgpm", ["/tokenize"]
    )


def test_a_bad_prompt_of_the_score_pass_is_named(server: Server) -> None:
    _assert_refused(post(server, "/v1/qgpm/relevance", prompt=5), "prompt", ["list"])
    _assert_refused(post(server, "/v1/qgpm/relevance", messages="text"), "messages", ["list"])
    for token in (10**6, 2**31):
        for prompt in ([token], [5, token, 6]):
            response = post(server, "/v1/qgpm/relevance", prompt=prompt)
            _assert_refused(response, "prompt", [str(token), "vocabulary"])


@pytest.mark.parametrize(
    ("fields", "parameter", "parts"),
    [
        ({"stream": True}, "stream", ["one JSON response"]),
        ({"n": 2}, "n", ["must be 1", "2"]),
        ({"use_beam_search": True}, "use_beam_search", ["no answer"]),
        ({"qgpm": False}, "qgpm", ["false"]),
        ({"qgpm": {"evidence": [PASSAGE]}}, "qgpm.evidence", ["replaces the relevance"]),
        ({"vllm_xargs": {"ropeway_first": 1}}, "vllm_xargs", ["ropeway_first"]),
        ({"vllm_xargs": {"other": 1}}, "vllm_xargs", ["no answer"]),
    ],
    ids=str,
)
def test_what_a_score_pass_cannot_have_is_refused(
    server: Server, fields: dict[str, Any], parameter: str, parts: list[str]
) -> None:
    for body in ({"prompt": PROMPT}, {"messages": [{"role": "user", "content": PROMPT}]}):
        _assert_refused(post(server, "/v1/qgpm/relevance", **body, **fields), parameter, parts)


def test_a_prompt_beside_messages_is_refused(server: Server) -> None:
    messages = [{"role": "user", "content": PROMPT}]
    response = post(server, "/v1/qgpm/relevance", prompt=PROMPT, messages=messages)
    _assert_refused(response, "prompt", ["messages"])
    assert len(relevance(server, prompt=None, messages=messages)["sentences"]) == 24


def test_sampling_parameters_may_stay_in_a_body_for_the_score_pass(server: Server) -> None:
    asked = {"temperature": 0.7, "max_tokens": 9, "n": 1, "stream": False, "qgpm": True, "stop": ["."]}
    assert len(relevance(server, prompt=PROMPT, **asked)["sentences"]) == 24


@pytest.mark.parametrize(
    ("method", "path", "allowed"),
    [
        ("HEAD", "/v1/positional", "GET"),
        ("OPTIONS", "/v1/positional", "GET"),
        ("DELETE", "/v1/requests/cmpl-nobody", "GET"),
        ("POST", "/v1/cache", "GET"),
        ("GET", "/v1/positional/profile", "PUT"),
        ("GET", "/v1/qgpm/relevance", "POST"),
        ("HEAD", "/v1/qgpm/relevance", "POST"),
    ],
)
def test_a_method_that_a_route_of_ours_lacks_is_refused(
    server: Server, method: str, path: str, allowed: str
) -> None:
    response = httpx.request(method, server.url + path)
    assert (response.status_code, response.headers["allow"]) == (405, allowed)
    if method == "HEAD":
        assert response.content == b""
        return
    error = response.json()["error"]
    assert (error["type"], error["code"], error["param"]) == ("MethodNotAllowedError", 405, "method")
    assert all(part in error["message"] for part in (path, method, allowed))


def test_who_has_no_key_is_told_that_first(crowded: Server) -> None:
    for path in ("/v1/responses", "/v1/completions", "/v1/qgpm/relevance"):
        response = crowded.post(path, {"model": MODEL, "input": PROMPT, "qgpm": 1, "rope": 1})
        assert response.status_code == 401


@pytest.mark.parametrize("path", ["/tokenize", "/v1/completions"])
def test_a_body_nested_too_deep_is_refused(server: Server, path: str) -> None:
    deep = 100_000
    body = f'{{"model": "{MODEL}", "prompt": "text", "qgpm": {"[" * deep}{"]" * deep}}}'
    headers = {"Content-Type": "application/json"}
    assert httpx.post(f"{server.url}{path}", content=body, headers=headers).status_code == 400


def test_a_bad_rule_of_rope_is_refused_by_name(server: Server) -> None:
    for path in ("/v1/completions", "/v1/qgpm/relevance"):
        _assert_refused(post(server, path, prompt=PROMPT, rope={"base": 1}), "rope.base", ["1"])


def test_an_unknown_request_id_is_not_found(server: Server) -> None:
    response = server.get("/v1/requests/cmpl-nobody")
    assert response.status_code == 404
    assert response.json()["error"]["code"] == 404
    assert "cmpl-nobody" in response.json()["error"]["message"]


def test_a_chat_without_a_user_cannot_be_located(server: Server, crowded: Server) -> None:
    """The caller who asked is told; under the server's default the answer is plain with a reason."""
    messages = [{"role": "system", "content": PROMPT}]
    response = post(server, "/v1/chat/completions", messages=messages, qgpm=True)
    _assert_refused(response, "qgpm.question", ["no user message"])
    found = record(crowded, chat(crowded, messages))
    assert found["mode"] == "plain"
    assert "no user message" in found["reason"]


def test_a_request_s_own_word_wins_over_the_server_s_default(server: Server, crowded: Server) -> None:
    short = f"{document(12, seed=2)}\n\n{QUESTION}"
    for on, modes in (
        (crowded, ("qgpm", "qgpm", "plain", "qgpm")),
        (server, ("plain", "plain", "plain", "qgpm")),
    ):
        bodies: list[dict[str, Any]] = [{}, {"qgpm": None}, {"qgpm": False}, {"qgpm": True}]
        found = [record(on, complete(on, short, **body)) for body in bodies]
        assert tuple(one["mode"] for one in found) == modes
        assert all("reason" not in one for one in found)


@pytest.mark.parametrize("prompt", ["", "One sentence only.\n\n", " . \n\n"])
@pytest.mark.parametrize("qgpm", [True, None])
def test_too_few_sentences_are_answered_plainly(crowded: Server, prompt: str, qgpm: Any) -> None:
    found = record(crowded, complete(crowded, prompt + QUESTION, qgpm=qgpm))
    assert (found["mode"], found["reason"]) == ("plain", "too_few_sentences")
    assert (found["protected_prefix"], found["top"]) == (None, [])
    assert found["sentences"] < 2


def test_a_prompt_of_nothing_but_a_token_is_answered_plainly(crowded: Server) -> None:
    assert record(crowded, complete(crowded, [5]))["mode"] == "plain"


def test_equal_relevance_is_answered_plainly(server: Server) -> None:
    """Of two sentences each head puts one first; where the two heads disagree, z is 0 for both."""
    prompts = [f"{document(2, seed=seed)}\n\n{QUESTION}" for seed in range(40)]
    equal = [p for p in prompts if relevance(server, prompt=p).get("reason") == "equal_relevance"]
    assert equal
    found = record(server, complete(server, equal[0], qgpm=True))
    assert (found["mode"], found["reason"], found["sentences"]) == ("plain", "equal_relevance", 2)


def test_evidence_serves_a_model_without_a_head_profile(headless: Server) -> None:
    response = post(headless, "/v1/completions", prompt=PROMPT, qgpm=True)
    _assert_refused(response, "qgpm", ["head profile", "--head-profile", "qgpm.evidence"])
    _assert_refused(post(headless, "/v1/qgpm/relevance", prompt=PROMPT), "qgpm", ["head profile"])
    sentence = DOCUMENT.partition(". ")[0]
    found = record(headless, complete(headless, qgpm={"evidence": [sentence]}))
    assert (found["mode"], found["outcome"]) == ("evidence", "success")
    assert "score" not in found["seconds"]
    assert record(headless, complete(headless))["mode"] == "plain"


def test_prompt_embeddings_are_refused_with_qgpm(headless: Server) -> None:
    buffer = io.BytesIO()
    torch.save(torch.zeros(8, 128), buffer)
    body = {"prompt_embeds": base64.b64encode(buffer.getvalue()).decode(), "max_tokens": 2}
    assert post(headless, "/v1/completions", **body).status_code == 200
    for qgpm in (True, {"evidence": ["text"]}):
        response = post(headless, "/v1/completions", **body, qgpm=qgpm)
        _assert_refused(response, "qgpm", ["prompt embeddings"])


def test_a_continued_answer_belongs_neither_to_context_nor_question(server: Server) -> None:
    begun = {"role": "assistant", "content": "The keeper said. It was hidden. It is"}
    messages = [{"role": "user", "content": PROMPT}, begun]
    wishes = {"continue_final_message": True, "add_generation_prompt": False}
    whole = relevance(server, messages=messages, **wishes)
    without = relevance(server, messages=messages[:1], add_generation_prompt=False)
    assert [row["text"] for row in whole["sentences"]] == [row["text"] for row in without["sentences"]]
    assert "".join(row["text"] for row in whole["sentences"]).strip() == DOCUMENT.strip()
    assert whole["query_rows"][-1] < whole["tokens"]["prompt"] - 4
    assert record(server, chat(server, messages, **wishes, qgpm=True))["mode"] == "qgpm"


def test_a_question_before_the_context_queries_the_tail_alone(server: Server) -> None:
    prompt = f"{QUESTION}\n\n{DOCUMENT}\n\nAnswer:"
    found = relevance(server, prompt=prompt, qgpm={"question": QUESTION, "context": DOCUMENT})
    length = found["tokens"]["prompt"]
    assert found["query_rows"] == list(range(length - 4, length))
    assert "".join(row["text"] for row in found["sentences"]).strip() == DOCUMENT.strip()


def test_parts_and_tool_results_are_context(server: Server) -> None:
    first, second = document(6, seed=21), document(5, seed=22)
    parts = [{"type": "text", "text": text} for text in (first, f"\n\n{QUESTION}")]
    call = {"id": "call_1", "type": "function", "function": {"name": "look", "arguments": "{}"}}
    messages = [
        {"role": "system", "content": "You answer. You are brief."},
        {"role": "user", "content": "Look it up. Then answer."},
        {"role": "assistant", "content": "I look. I find.", "tool_calls": [call]},
        {"role": "tool", "tool_call_id": "call_1", "content": second},
        {"role": "user", "content": parts},
    ]
    rows = relevance(server, messages=messages)["sentences"]
    text = " ".join(row["text"].strip() for row in rows)
    assert text == f"Look it up. Then answer. {second} {first}"
    found = record(server, chat(server, messages, qgpm={"evidence": [second[:40]]}))
    assert (found["mode"], found["sentences"]) == ("evidence", len(rows))


def test_a_refused_request_is_counted_as_rejected(server: Server) -> None:
    before = metric(server, "ropeway_requests_total", mode="qgpm", outcome="rejected")
    post(server, "/v1/completions", prompt=PROMPT, qgpm={"k_sharp": 0})
    post(server, "/v1/completions", prompt=PROMPT, qgpm={"question": "Who sailed to the moon?"})
    assert metric(server, "ropeway_requests_total", mode="qgpm", outcome="rejected") == before + 2
