"""Errors in OpenAI's shape, and routes that never answer in another."""

from collections.abc import Mapping
from http import HTTPStatus

from fastapi.routing import APIRoute
from starlette.responses import JSONResponse
from starlette.types import Receive, Scope, Send


def error_response(
    status: HTTPStatus,
    message: str,
    parameter: str | None = None,
    headers: Mapping[str, str] | None = None,
) -> JSONResponse:
    """`{"error": {message, type, param, code}}` as vLLM answers; `type` follows from the status."""
    error = {"message": message, "type": _kind(status), "param": parameter, "code": int(status)}
    return JSONResponse({"error": error}, status_code=status, headers=headers)


class OwnRoute(APIRoute):
    """A route of Ropeway's own: a method that it does not have is refused like everything else."""

    async def handle(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve the request, or refuse its method."""
        if scope["method"] in self.methods:
            await super().handle(scope, receive, send)
            return
        allowed = ", ".join(sorted(self.methods))
        refused = error_response(
            HTTPStatus.METHOD_NOT_ALLOWED,
            f"{scope['path']} takes {allowed}, not {scope['method']}",
            "method",
            {"Allow": allowed},
        )
        await refused(scope, receive, send)


def _kind(status: HTTPStatus) -> str:
    words = status.phrase.title().replace(" ", "")
    return words if words.endswith("Error") else f"{words}Error"
