"""The body of `POST /v1/qgpm/relevance`: a chat's or a completion's, but for what asks for an answer."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from pydantic import ValidationError
from vllm.entrypoints.openai.chat_completion.protocol import ChatCompletionRequest
from vllm.entrypoints.openai.completion.protocol import CompletionRequest

from server.fields import QGPMFields
from server.handlers import Body, keep_parts, read_fields
from server.preparation import Abilities, refuse_forged
from server.request_error import RequestError


def read_body(body: Mapping[str, Any]) -> Body:
    """A chat where there are messages, else a completion; raises RequestError.

    Sampling parameters may stay in the body: nothing is sampled.
    """
    chat = body.get("messages") is not None
    if chat and body.get("prompt") is not None:
        raise RequestError("prompt cannot stand beside messages", "prompt")
    kind = ChatCompletionRequest if chat else CompletionRequest
    try:
        parsed: Body = kind.model_validate(body)
        keep_parts(parsed)
    except ValidationError as error:
        first = error.errors(include_url=False, include_context=False)[0]
        name = str(first["loc"][0]) if first["loc"] else "body"  # what follows names types, not fields
        raise RequestError(f"{name}: {first['msg']}", name) from error
    except (AttributeError, KeyError, TypeError) as error:  # of vLLM's validators, which trust some types
        raise RequestError("the body holds a value of a type that its field cannot have", "body") from error
    _refuse_answers(parsed)
    return parsed


def read_score_fields(body: Body, abilities: Abilities) -> QGPMFields:
    """The body's `qgpm`, switched on; raises RequestError."""
    fields = read_fields(body, abilities)
    if fields.asked and not fields.enabled:
        raise RequestError("qgpm is false, but without it there is no relevance", "qgpm")
    if fields.evidence is not None:
        raise RequestError("qgpm.evidence replaces the relevance; leave it out here", "qgpm.evidence")
    return replace(fields, enabled=True, asked=True)


def _refuse_answers(body: Body) -> None:
    """Raise for what asks for more than one plain JSON answer, or pretends to be the server."""
    if body.use_beam_search:
        raise RequestError("use_beam_search means nothing here: there is no answer", "use_beam_search")
    if body.stream:
        raise RequestError("stream means nothing here: there is one JSON response", "stream")
    if body.n not in (None, 1):
        raise RequestError(f"n must be 1 here: a prompt has one relevance (got {body.n})", "n")
    refuse_forged(body.vllm_xargs)
    if body.vllm_xargs is not None:
        raise RequestError("vllm_xargs means nothing here: there is no answer", "vllm_xargs")
