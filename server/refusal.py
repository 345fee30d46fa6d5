"""Why requests are refused, as metrics tell it."""

from collections.abc import Callable
from typing import Literal

from fastapi import FastAPI, Request
from starlette.responses import Response
from vllm.entrypoints.serve.exception_handling.handlers.vllm_error import vllm_error_handler

from server.request_error import RequestError

Reason = Literal["qgpm", "text", "rope", "length", "forged", "endpoint", "other"]

_TEXTS = ("qgpm.question", "qgpm.context", "qgpm.evidence")
_FIELDS: dict[str, Reason] = {
    "qgpm": "qgpm",
    "messages": "text",
    "rope": "rope",
    "max_tokens": "length",
    "min_tokens": "length",
    "vllm_xargs": "forged",
}


def reason_of(error: RequestError) -> Reason:
    """The kind of a refusal; clients choose names of fields, so those are no label."""
    name = str(error.parameter)
    if name.startswith(_TEXTS):
        return "text"
    return _FIELDS.get(name.partition(".")[0], "other")


def count_refusals(app: FastAPI, refuse: Callable[[Reason], None]) -> None:
    """Count every request that is answered by a RequestError, and answer as before."""

    async def refused(request: Request, error: RequestError) -> Response:
        refuse(reason_of(error))
        return await vllm_error_handler(request, error)

    app.exception_handler(RequestError)(refused)
