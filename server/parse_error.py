"""A body that no parser can read is refused in OpenAI's shape on the endpoints with our fields."""

from http import HTTPStatus

from fastapi import FastAPI, Request
from fastapi.exception_handlers import http_exception_handler
from starlette.exceptions import HTTPException
from starlette.responses import Response

from server.error_response import error_response
from server.field_refusal import WITH_FIELDS


def shape_parse_errors(app: FastAPI) -> None:
    """Answer by `{"error": …}` where JSON is nested too deep; FastAPI alone says `{"detail": …}`."""

    async def shaped(request: Request, error: HTTPException) -> Response:
        if error.status_code == HTTPStatus.BAD_REQUEST and request.url.path in WITH_FIELDS:
            return error_response(HTTPStatus.BAD_REQUEST, error.detail, "body")
        return await http_exception_handler(request, error)

    app.exception_handler(HTTPException)(shaped)
