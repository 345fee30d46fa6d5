"""The answer to a request that asks for more than the server gives."""

from collections.abc import Callable

from fastapi import FastAPI, Request
from starlette.responses import Response

from server.error_response import error_response
from server.limits import Limit, LimitError


def count_limits(app: FastAPI, limited: Callable[[Limit], None]) -> None:
    """Count every request that a LimitError ends, and answer with its status, limit and value."""

    async def over(_: Request, error: LimitError) -> Response:
        limited(error.limit)
        headers = None if error.retry_after is None else {"Retry-After": str(error.retry_after)}
        return error_response(error.status, str(error), error.parameter, headers)

    app.exception_handler(LimitError)(over)
