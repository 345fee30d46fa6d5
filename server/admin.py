"""The administrator's route: `PUT /v1/positional/profile` changes the default rule of RoPE."""

import json
from collections.abc import Mapping
from http import HTTPStatus
from typing import Any

from fastapi import APIRouter, Request
from fastapi.responses import JSONResponse

from server.admin_key import HEADER, VARIABLE, AdminKey
from server.answers import ChangedRule
from server.engine import RopewayEngine
from server.error_response import OwnRoute, error_response
from server.fields import FieldError
from server.openapi import RULE, errors
from server.request_error import RequestError
from server.rope_choice import NOTHING_TO_REPLACE, Wish
from server.rope_fields import RopeFields

_RULE = ("base", "scaling", "policy")
_RUNNING = ("finish", "rebuild")

# The body is read only behind the key, so FastAPI does not see it.
_TOLD = {
    "parameters": [{"name": HEADER, "in": "header", "required": True, "schema": {"type": "string"}}],
    "requestBody": {
        "required": True,
        "content": {
            "application/json": {
                "schema": {
                    "type": "object",
                    "properties": {**RULE, "running": {"enum": list(_RUNNING)}},
                    "required": ["running"],
                    "additionalProperties": False,
                }
            }
        },
    },
}

router = APIRouter(route_class=OwnRoute)


@router.put(
    "/v1/positional/profile",
    responses={
        HTTPStatus.OK.value: {"model": ChangedRule},
        **errors(HTTPStatus.BAD_REQUEST, HTTPStatus.NOT_FOUND, HTTPStatus.REQUEST_ENTITY_TOO_LARGE),
    },
    openapi_extra=_TOLD,
)
async def put_profile(request: Request) -> JSONResponse:
    """Change the default of requests that bring no rule; running ones finish on theirs or are rebuilt."""
    key: AdminKey | None = request.app.state.ropeway_admin_key
    if key is None:
        return error_response(
            HTTPStatus.NOT_FOUND, f"this server has no admin key: start it with {VARIABLE} or --admin-key"
        )
    if not key.opens(request.headers.get(HEADER)):
        return error_response(HTTPStatus.UNAUTHORIZED, f"the header {HEADER} must hold the admin key", HEADER)
    engine: RopewayEngine = request.app.state.engine_client
    wish, rebuilds = read_change(_object(await request.body()), engine)
    done = await engine.change_default(wish, rebuilds)
    return JSONResponse({**engine.profiles.describe(), "rebuilt": done.rebuilt, "not_rebuilt": done.kept})


def read_change(body: Mapping[str, Any], engine: RopewayEngine) -> tuple[Wish | None, bool]:
    """The rule of a body (None: that of the start), and whether running requests are rebuilt.

    Raises RequestError, naming the field.
    """
    known = (*_RULE, "running")
    for name in body:
        if name not in known:
            raise RequestError(f"{name} is unknown; known are {', '.join(known)}", name)
    running = body.get("running")
    if running not in _RUNNING:
        raise RequestError(f'running must be "finish" or "rebuild" (got {running!r:.80})', "running")
    if engine.rope is None:
        raise RequestError(NOTHING_TO_REPLACE, "base")
    rule = {name: body[name] for name in _RULE if body.get(name) is not None}
    try:
        wish = RopeFields.parse(rule or None, engine.rope.model, engine.rope.declared).wish
    except FieldError as error:
        # The same fields as a request's `rope`, here without that name before them.
        name = error.parameter.removeprefix("rope.")
        raise RequestError(error.message.replace(error.parameter, name, 1), name) from error
    return wish, running == "rebuild"


def _object(data: bytes) -> dict[str, Any]:
    try:
        body = json.loads(data)
    except (ValueError, RecursionError) as error:
        raise RequestError(f"the body is not JSON: {error}", "body") from error
    if not isinstance(body, dict):
        raise RequestError("the body must be an object", "body")
    return body
