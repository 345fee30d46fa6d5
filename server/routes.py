"""Routes of Ropeway's own: what was done, what the model is, and the score pass alone."""

import time
from dataclasses import asdict
from http import HTTPStatus
from typing import Any
from uuid import uuid4

from fastapi import APIRouter, Depends, Request
from fastapi.responses import JSONResponse
from pydantic import ValidationError
from vllm.entrypoints.openai.chat_completion.protocol import ChatCompletionRequest
from vllm.entrypoints.openai.completion.protocol import CompletionRequest
from vllm.entrypoints.serve.engine.protocol import ErrorResponse
from vllm.entrypoints.serve.utils.api_utils import validate_json_request, with_cancellation
from vllm.sampling_params import SamplingParams

from positional.qgpm import NothingToModulate, build_modulation
from server.engine import RopewayEngine
from server.fields import QGPMFields
from server.handlers import Body, read_fields, read_source
from server.preparation import PlainReason, Preparation, RequestError
from server.request_record import all_relevant, sentence_rows
from server.two_passes import Inner

router = APIRouter()


def _engine(request: Request) -> RopewayEngine:
    engine: RopewayEngine = request.app.state.engine_client
    return engine


@router.get("/v1/requests/{request_id:path}")  # a caller may choose an id that holds a slash
async def get_request(request_id: str, request: Request) -> JSONResponse:
    """What was done for a recent request, by the id of its response."""
    record = _engine(request).records.describe(request_id)
    if record is None:
        error = {
            "message": f"no recent request has the id {request_id}",
            "type": "NotFoundError",
            "param": "request_id",
            "code": 404,
        }
        return JSONResponse({"error": error}, status_code=HTTPStatus.NOT_FOUND)
    return JSONResponse(record)


@router.get("/v1/positional")
async def get_positional(request: Request) -> JSONResponse:
    """Layer plan, profiles, head profile and defaults."""
    abilities = _engine(request).abilities
    heads = abilities.heads
    return JSONResponse(
        {
            **request.app.state.ropeway_plan,
            "head_profile": None if heads is None else {**asdict(heads), "digest": heads.digest.hex()},
            "defaults": {
                "qgpm": "on" if abilities.enabled_by_default else "off",
                "query_tail": abilities.query_tail,
                **asdict(abilities.defaults),
            },
        }
    )


@router.post("/v1/qgpm/relevance", dependencies=[Depends(validate_json_request)])
@with_cancellation
async def post_relevance(body: dict[str, Any], raw_request: Request) -> JSONResponse:
    """The score pass alone: every sentence with offsets, z, rank and both maps' scores."""
    engine = _engine(raw_request)
    parsed = _parse(body)
    fields = _score_fields(parsed, engine)
    handler = _handler(parsed, raw_request)
    prompts = await _render(parsed, handler)
    if isinstance(prompts, ErrorResponse):
        return JSONResponse(prompts.model_dump(), status_code=prompts.error.code)
    options = {
        "lora_request": handler._maybe_get_adapters(parsed),
        "priority": parsed.priority,
        "data_parallel_rank": handler._get_data_parallel_rank(raw_request),
    }
    source = read_source(parsed)
    # All prompts are located before any is scored, so that a bad one costs nothing.
    prepared = [await engine.prepare(prompt, fields, source) for prompt in prompts]
    results = []
    for prompt, preparation in zip(prompts, prepared, strict=True):
        inner = Inner(engine.generate, prompt, SamplingParams(), f"relevance-{uuid4().hex}", options)
        results.append(await _relevance(engine, inner, preparation))
    model = parsed.model or handler.models.model_name()
    return JSONResponse({"model": model, **(results[0] if len(results) == 1 else {"prompts": results})})


def _handler(body: Body, request: Request) -> Any:
    state = request.app.state
    chat = isinstance(body, ChatCompletionRequest)
    return (state.openai_serving_chat if chat else state.openai_serving_completion).stock


async def _render(body: Body, handler: Any) -> list[dict[str, Any]] | ErrorResponse:
    if isinstance(body, CompletionRequest):
        return await handler.render_completion_request(body)
    rendered = await handler.render_chat_request(body)
    return rendered if isinstance(rendered, ErrorResponse) else rendered[1]


def _parse(body: dict[str, Any]) -> Body:
    kind = ChatCompletionRequest if "messages" in body else CompletionRequest
    try:
        parsed: Body = kind.model_validate(body)
    except ValidationError as error:
        first = error.errors(include_url=False, include_context=False)[0]
        name = str(first["loc"][0]) if first["loc"] else "body"  # what follows names types, not fields
        raise RequestError(f"{name}: {first['msg']}", name) from error
    return parsed


def _score_fields(body: Body, engine: RopewayEngine) -> QGPMFields:
    fields = read_fields(body, engine.abilities)
    if fields.evidence is not None:
        raise RequestError("qgpm.evidence replaces the score pass; leave it out here", "qgpm.evidence")
    return QGPMFields(True, True, fields.question, fields.context, None, fields.overrides)


async def _relevance(
    engine: RopewayEngine, inner: Inner, preparation: Preparation | PlainReason
) -> dict[str, Any]:
    # The body asks for a score pass, so what could not be located was refused.
    assert isinstance(preparation, Preparation)
    located, spans = preparation.located, preparation.spans
    result: dict[str, Any] = {
        "query_rows": list(located.query_rows),
        "tokens": {"prompt": len(preparation.prompt.token_ids), "cached": 0},
        "sentences": [],
        "protected_prefix": None,
    }
    if not spans:
        return {**result, "reason": "too_few_sentences"}
    started = time.perf_counter()
    found = await engine.score(inner, preparation)
    result["seconds"] = {"score": time.perf_counter() - started}
    result["tokens"]["cached"] = found.cached
    try:
        _, scores = build_modulation(found.z, spans, located.num_tokens, preparation.config)
        result["protected_prefix"] = min(scores.protected_until)
    except NothingToModulate as nothing:
        result["reason"] = nothing.reason
        scores = all_relevant(len(spans))
    rows = sentence_rows(found.z, scores, located.sentences)
    text = preparation.prompt.text
    for row, sentence in zip(rows, located.sentences, strict=True):
        row |= {"start_char": sentence.start_char, "end_char": sentence.end_char}
        row["text"] = text[sentence.start_char : sentence.end_char]
    return {**result, "sentences": rows}
