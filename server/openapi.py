"""What `/openapi.json` tells beside vLLM's own: the fields `qgpm` and `rope`, and how our limits refuse."""

from collections.abc import Mapping
from http import HTTPStatus
from typing import Any, get_args

from fastapi import FastAPI
from vllm.entrypoints.serve.engine.protocol import ErrorResponse

from positional.profile import ROPE_TYPES
from positional.qgpm import Ablation
from positional.sources.fusion import HEAVIEST, Fusion
from server.error_response import OwnRoute
from server.fields import MOST_NEIGHBOURS
from server.relevance_choice import SOURCES

_TEXT = {"type": "string", "minLength": 1}
_COUNT = {"type": "integer", "maximum": 2**31 - 1}
_AT_LEAST_0 = {"type": "number", "minimum": 0}
_ABOVE_0 = {"type": "number", "exclusiveMinimum": 0}

_PASSAGE = {
    "type": "object",
    "properties": {"text": _TEXT, "score": {"type": ["number", "null"]}},
    "required": ["text"],
    "additionalProperties": False,
}
_SOURCE = {"enum": list(SOURCES)}
_SETTINGS: dict[str, dict[str, Any]] = {
    "question": _TEXT,
    "context": _TEXT,
    "evidence": {"type": "array", "minItems": 1, "items": {"anyOf": [_TEXT, _PASSAGE]}},
    "k_broad": {**_COUNT, "minimum": 2},
    "t_broad": _AT_LEAST_0,
    "k_sharp": {**_COUNT, "minimum": 1},
    "t_sharp": _AT_LEAST_0,
    "score_low": {"type": "number", "minimum": 0, "exclusiveMaximum": 1},
    "stride_floor": {"type": "number", "exclusiveMinimum": 0, "maximum": 1},
    "anchor_ratio": _ABOVE_0,
    "gate_width": _ABOVE_0,
    "ablation": {"enum": list(get_args(Ablation))},
    "relevance": {
        "anyOf": [
            _SOURCE,
            {"type": "array", "minItems": 1, "uniqueItems": True, "items": _SOURCE},
            {
                "type": "object",
                "minProperties": 1,
                "properties": {name: {**_ABOVE_0, "maximum": HEAVIEST} for name in SOURCES},
                "additionalProperties": False,
            },
        ]
    },
    "fusion": {"enum": list(get_args(Fusion))},
    "neighbours": {"type": "integer", "minimum": 0, "maximum": MOST_NEIGHBOURS},
    "adaptive_k": {"type": "boolean"},
    "guard": {"type": "number", "minimum": 0, "maximum": 1},
}


def _or_null(schema: Mapping[str, Any]) -> dict[str, Any]:
    return {"anyOf": [schema, {"type": "null"}]}


QGPM: dict[str, Any] = {
    "title": "QGPM",
    "description": "Query-guided positional modulation: on, off, or settings. null: the server's default.",
    "anyOf": [
        {"type": ["boolean", "null"]},
        {
            "type": "object",
            "properties": {name: _or_null(schema) for name, schema in _SETTINGS.items()},
            "additionalProperties": False,
        },
    ],
}
"""The schema of the field `qgpm`. That a text occurs in the prompt, k_broad > k_sharp, and that evidence goes
with the source `caller`, no schema says."""

RULE: dict[str, dict[str, Any]] = {
    "base": _or_null({"type": "number", "exclusiveMinimum": 1}),
    # What each rule's own numbers may be is told by its refusal.
    "scaling": _or_null(
        {
            "type": "object",
            "properties": {"rope_type": {"enum": sorted(ROPE_TYPES)}},
            "required": ["rope_type"],
        }
    ),
    "policy": _or_null({"const": "auto"}),
}
"""The members of a RoPE rule, by name."""

ROPE: dict[str, Any] = {
    "title": "RoPE rule",
    "description": "The request's own RoPE rule, or the policy that chooses one. null: the server's default.",
    "anyOf": [{"type": "null"}, {"type": "object", "properties": RULE, "additionalProperties": False}],
}
"""The schema of the field `rope`."""

# The bodies that have the fields, by the names that vLLM gives them.
_BODIES = ("ChatCompletionRequest", "CompletionRequest")
_PATHS = ("/v1/chat/completions", "/v1/completions")
EITHER_BODY = {"anyOf": [{"$ref": f"#/components/schemas/{name}"} for name in _BODIES]}
"""The schema of a body that is a chat's or a completion's."""

_REFUSALS = {
    HTTPStatus.REQUEST_ENTITY_TOO_LARGE: "The body is larger than this server takes",
    HTTPStatus.TOO_MANY_REQUESTS: "As many score passes as one key may have are under way; see Retry-After",
    HTTPStatus.SERVICE_UNAVAILABLE: "The server is shutting down, or its engine has ended; see Retry-After",
}
_ERROR = {"application/json": {"schema": {"$ref": "#/components/schemas/ErrorResponse"}}}


def errors(*statuses: HTTPStatus) -> dict[int | str, dict[str, Any]]:
    """`responses` of a route of ours under `/v1` that also refuses with these statuses."""
    told: dict[int | str, dict[str, Any]] = {
        status.value: {"model": ErrorResponse, "description": _REFUSALS.get(status, status.phrase)}
        for status in (*statuses, HTTPStatus.METHOD_NOT_ALLOWED, HTTPStatus.SERVICE_UNAVAILABLE)
    }
    # Without a schema: where the API key is missing, vLLM answers in a shape of its own.
    return told | {HTTPStatus.UNAUTHORIZED.value: {"description": "A key is missing or wrong"}}


def tell_fields(app: FastAPI) -> None:
    """Tell them from now on."""
    stock = app.openapi

    def openapi() -> dict[str, Any]:
        if app.openapi_schema is None:
            _add(stock(), {route.path_format for route in app.routes if isinstance(route, OwnRoute)})
        return app.openapi_schema or {}

    app.openapi = openapi  # type: ignore[method-assign]


def _add(schema: dict[str, Any], own: set[str]) -> None:
    """Write into vLLM's schema what is ours."""
    for name in _BODIES:
        schema["components"]["schemas"][name]["properties"] |= {"qgpm": QGPM, "rope": ROPE}
    for path in _PATHS:
        responses = schema["paths"][path]["post"]["responses"]
        for status, description in _REFUSALS.items():
            responses[str(status.value)] = {"description": description, "content": _ERROR}
    for path in own & schema["paths"].keys():
        for operation in schema["paths"][path].values():
            operation["responses"].pop("422", None)  # FastAPI's own refusal, which vLLM turns into a 400
