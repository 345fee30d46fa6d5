"""What is wrong with an answer: schemathesis' checks of it, and whether it was given at all."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

import jsonschema_rs
import schemathesis
from schemathesis.checks import not_a_server_error
from schemathesis.core.failures import FailureGroup
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    response_headers_conformance,
    response_schema_conformance,
    status_code_conformance,
)

from loadtests.fuzz.views import CHAT, COMPLETION, FIELDS, PROFILE, RELEVANCE

_CHECKS: list[schemathesis.CheckFunction] = [
    not_a_server_error,
    status_code_conformance,
    content_type_conformance,
    response_headers_conformance,
    response_schema_conformance,
]
ACCEPTED = "accepted a body that the document excludes"
SERVER_ERROR = "server error"
_SHOWN = 160

AnyCase: TypeAlias = schemathesis.Case[Any]


@dataclass(frozen=True, slots=True)
class Violation:
    """A kind of fault; `field` is the property of the body that the document excludes, where that is it."""

    operation: str
    kind: str
    status: int
    detail: str
    field: str | None = None


class Judge:
    """Finds violations by the document that is served."""

    def __init__(self, served: Mapping[str, Any]) -> None:
        self._bodies = {
            path: _validator(served, served["paths"][path][method]["requestBody"])
            for path, method in ((CHAT, "post"), (COMPLETION, "post"), (PROFILE, "put"))
        }

    def violations(self, case: AnyCase, response: schemathesis.Response) -> list[Violation]:
        """All that is wrong with an answer."""
        operation = f"{case.method} {case.path}"
        status = response.status_code
        found = [
            Violation(operation, kind, status, _error(response) if status >= 500 else detail)
            for kind, detail in _failures(case, response)
        ]
        if (code := _streamed_error(response)) >= 500:
            found.append(Violation(operation, SERVER_ERROR, code, "in a stream"))
        if status < 300 and (excluded := self._excluded(case)) is not None:
            found.append(Violation(operation, ACCEPTED, status, *excluded))
        return found

    def _excluded(self, case: AnyCase) -> tuple[str, str | None] | None:
        """Why the document excludes a case's body, and the property that it excludes first."""
        path = twin(case) if case.path == RELEVANCE else case.path
        if path not in self._bodies:
            return None
        body = case.body
        if not isinstance(body, dict | list | str | int | float | bool | type(None)):
            return "no JSON", None
        errors = list(self._bodies[path].iter_errors(body))
        # One of ours first: that vLLM takes another is no excuse for it.
        errors.sort(key=lambda error: not set(error.instance_path[:1]) & set(FIELDS))
        if not errors:
            return None
        name = str(errors[0].instance_path[0]) if errors[0].instance_path else None
        return f"at {name or 'the whole'}", name


def twin(case: AnyCase) -> str:
    """The endpoint of vLLM that takes the body of a score pass."""
    chat = isinstance(case.body, dict) and case.body.get("messages") is not None
    return CHAT if chat else COMPLETION


def _validator(served: Mapping[str, Any], body: Mapping[str, Any]) -> jsonschema_rs.Draft202012Validator:
    schema = body["content"]["application/json"]["schema"]
    return jsonschema_rs.Draft202012Validator({**schema, "components": served["components"]})


def _failures(case: AnyCase, response: schemathesis.Response) -> list[tuple[str, str]]:
    try:
        case.validate_response(response, checks=_CHECKS)
    except FailureGroup as group:
        return [(_kind(failure), str(failure.message)[:_SHOWN]) for failure in group.exceptions]
    return []


def _kind(failure: BaseException) -> str:
    title = str(getattr(failure, "title", type(failure).__name__))
    return title[0].lower() + title[1:]


def _error(response: schemathesis.Response) -> str:
    """What a server says that went wrong."""
    try:
        return str(response.json()["error"]["message"])[:_SHOWN]
    except (ValueError, KeyError, TypeError):
        return response.content[:_SHOWN].decode(errors="replace")


def _streamed_error(response: schemathesis.Response) -> int:
    """The code of the error that a stream tells, 0 without one."""
    if "text/event-stream" not in "".join(response.headers.get("content-type", [])):
        return 0
    for line in response.content.decode(errors="replace").splitlines():
        if line.startswith('data: {"error"'):
            return int(json.loads(line.removeprefix("data: "))["error"].get("code") or 500)
    return 0
