"""What the fuzzer calls a fault."""

import json
from typing import Any

import pytest
import requests
import schemathesis

from loadtests.fuzz.session import judged, load
from loadtests.fuzz.views import CHAT, COMPLETION, PROFILE, RELEVANCE, VIEWS, shared
from loadtests.fuzz.violation import ACCEPTED, SERVER_ERROR, AnyCase, Judge, twin

_QGPM = {
    "anyOf": [
        {"type": "boolean"},
        {"type": "object", "properties": {"k_sharp": {"type": "integer", "minimum": 1}}},
    ]
}
_BODY = {
    "type": "object",
    "properties": {"prompt": {"type": "string"}, "n": {"type": "integer"}, "qgpm": _QGPM},
}
_ANSWER = {"type": "object", "properties": {"id": {"type": "string"}}, "required": ["id"]}


def _operation() -> dict[str, Any]:
    body = {
        "required": True,
        "content": {"application/json": {"schema": {"$ref": "#/components/schemas/Body"}}},
    }
    told = {"description": "", "content": {"application/json": {"schema": _ANSWER}, "text/event-stream": {}}}
    return {"requestBody": body, "responses": {"200": told, "400": {"description": ""}}}


DOCUMENT = {
    "openapi": "3.1.0",
    "info": {"title": "T", "version": "1"},
    "paths": {
        **{path: {"post": _operation()} for path in (CHAT, COMPLETION, RELEVANCE)},
        PROFILE: {"put": _operation()},
    },
    "components": {"schemas": {"Body": _BODY}},
}
JUDGE = Judge(DOCUMENT)


def _case(body: Any, path: str = COMPLETION) -> AnyCase:
    return load(DOCUMENT)[path]["POST"].Case(body=body, media_type="application/json")


def _response(status: int, content: Any, kind: str = "application/json") -> schemathesis.Response:
    data = content.encode() if isinstance(content, str) else json.dumps(content).encode()
    request = requests.Request("POST", f"http://server{COMPLETION}").prepare()
    return schemathesis.Response(status, {"content-type": [kind]}, data, request, 0.1, True)


def _found(body: Any, response: schemathesis.Response | None) -> list[tuple[str, int, str | None]]:
    return [(each.kind, each.status, each.field) for each in judged(JUDGE, _case(body), response)]


def test_an_answer_as_the_document_says_is_no_fault() -> None:
    assert _found({"prompt": "a", "n": 1, "qgpm": True}, _response(200, {"id": "a"})) == []
    assert _found({"n": "many"}, _response(400, {"error": {}})) == []


@pytest.mark.parametrize(
    ("body", "field"),
    [({"n": "1"}, "n"), ({"n": "1", "qgpm": 1}, "qgpm"), ({"qgpm": {"k_sharp": 0}}, "qgpm"), ([], None)],
    ids=str,
)
def test_a_body_that_the_document_excludes_must_not_be_accepted(body: Any, field: str | None) -> None:
    assert _found(body, _response(200, {"id": "a"})) == [(ACCEPTED, 200, field)]


def test_an_error_of_the_server_is_one_in_a_stream_too() -> None:
    assert (SERVER_ERROR, 500, None) in _found({}, _response(500, {"error": {"message": "no"}}))
    stream = 'data: {"id": "a"}\n\ndata: {"error": {"message": "no", "code": 500}}\n\ndata: [DONE]\n\n'
    assert _found({}, _response(200, stream, "text/event-stream")) == [(SERVER_ERROR, 500, None)]
    refused = stream.replace("500", "400")
    assert _found({}, _response(200, refused, "text/event-stream")) == []


def test_an_answer_of_another_shape_or_status_is_a_fault() -> None:
    assert _found({}, _response(200, {"name": "a"}))
    assert _found({}, _response(418, {"error": {}}))


def test_no_answer_is_a_fault() -> None:
    assert [kind for kind, _, _ in _found({}, None)] == ["no answer"]


def test_a_body_for_relevance_has_a_twin_among_vllm_s_endpoints() -> None:
    assert twin(_case({"messages": []}, RELEVANCE)) == CHAT
    assert twin(_case({"prompt": "a"}, RELEVANCE)) == twin(_case(b"\0", RELEVANCE)) == COMPLETION


@pytest.mark.parametrize("examples", [100, 600, 5000])
def test_the_views_share_all_examples(examples: int) -> None:
    counts = shared(examples, VIEWS)
    assert sum(counts.values()) == examples
    assert min(counts.values()) >= 1
