"""Routes of Ropeway's own: what was done, what the model is, and the relevance alone."""

from contextlib import nullcontext
from dataclasses import asdict
from http import HTTPStatus
from typing import Any
from uuid import uuid4

import torch
from fastapi import APIRouter, Depends, Request
from fastapi.responses import JSONResponse
from vllm.entrypoints.openai.chat_completion.protocol import ChatCompletionRequest
from vllm.entrypoints.openai.completion.protocol import CompletionRequest
from vllm.entrypoints.serve.engine.protocol import ErrorResponse
from vllm.entrypoints.serve.utils.api_utils import validate_json_request, with_cancellation
from vllm.sampling_params import SamplingParams

from positional.qgpm import NothingToModulate
from server.answers import OneRelevance, Positional, PromptsDone, RequestDone, SeveralRelevances
from server.engine import RopewayEngine
from server.error_response import OwnRoute, error_response
from server.handlers import Body, gives_max_tokens, read_holder, read_max_tokens, read_rope, read_source
from server.openapi import EITHER_BODY, errors
from server.plane_positions import plane_positions
from server.preparation import PlainReason, Preparation
from server.relevance_body import read_body, read_score_fields
from server.request_record import all_relevant, sentence_rows
from server.score_pass import Inner

_REFUSED = (
    HTTPStatus.BAD_REQUEST,
    HTTPStatus.NOT_FOUND,  # of a model
    HTTPStatus.REQUEST_ENTITY_TOO_LARGE,
    HTTPStatus.TOO_MANY_REQUESTS,
)

router = APIRouter(route_class=OwnRoute)


def _engine(request: Request) -> RopewayEngine:
    engine: RopewayEngine = request.app.state.engine_client
    return engine


@router.get(
    "/v1/requests/{request_id:path}",  # a caller may choose an id that holds a slash
    responses={HTTPStatus.OK.value: {"model": RequestDone | PromptsDone}, **errors(HTTPStatus.NOT_FOUND)},
)
async def get_request(request_id: str, request: Request) -> JSONResponse:
    """What was done for a recent request, by the id of its response."""
    record = _engine(request).records.describe(request_id)
    if record is None:
        return error_response(
            HTTPStatus.NOT_FOUND, f"no recent request has the id {request_id}", "request_id"
        )
    return JSONResponse(record)


@router.get("/v1/positional", responses={HTTPStatus.OK.value: {"model": Positional}, **errors()})
async def get_positional(request: Request) -> JSONResponse:
    """Layer plan, profiles, head profile and defaults."""
    engine = _engine(request)
    abilities = engine.abilities
    heads = abilities.heads
    return JSONResponse(
        {
            **request.app.state.ropeway_plan,
            "default": engine.profiles.describe(),
            "guard": asdict(abilities.guard),
            "head_profile": None if heads is None else {**asdict(heads), "digest": heads.digest.hex()},
            "defaults": {
                "qgpm": "on" if abilities.enabled_by_default else "off",
                "query_tail": abilities.query_tail,
                "relevance": dict(abilities.relevance.weights),
                "fusion": abilities.relevance.fusion,
                "guard": abilities.dial,
                **asdict(abilities.defaults),
            },
        }
    )


@router.post(
    "/v1/qgpm/relevance",
    dependencies=[Depends(validate_json_request)],
    responses={HTTPStatus.OK.value: {"model": OneRelevance | SeveralRelevances}, **errors(*_REFUSED)},
    openapi_extra={"requestBody": {"content": {"application/json": {"schema": EITHER_BODY}}}},
)
@with_cancellation
async def post_relevance(body: dict[str, Any], raw_request: Request) -> JSONResponse:
    """The relevance alone: sentences with offsets, z, rank and scores, and positions on three planes."""
    engine = _engine(raw_request)
    parsed = read_body(body)
    fields = read_score_fields(parsed, engine.abilities)
    handler = _handler(parsed, raw_request)
    prompts = await _render(parsed, handler)
    if isinstance(prompts, ErrorResponse):
        return JSONResponse(prompts.model_dump(), status_code=prompts.error.code)
    for prompt in prompts:  # one without sentences never reaches the engine, which would check them
        engine.renderer.validate_token_ids(prompt.get("prompt_token_ids") or (), parameter="prompt")
    options = {
        "lora_request": handler._maybe_get_adapters(parsed),
        "priority": parsed.priority,
        "data_parallel_rank": handler._get_data_parallel_rank(raw_request),
    }
    source, rope, limit = read_source(parsed), read_rope(parsed, engine.rope), read_max_tokens(parsed)
    given = await gives_max_tokens(parsed, raw_request)
    asked = SamplingParams(max_tokens=limit)
    parameters = [engine.placed(prompt, asked, rope, given) for prompt in prompts]
    # All prompts are located before any is scored, so that a bad one costs nothing.
    prepared = [await engine.prepare(prompt, fields, source) for prompt in prompts]
    results = []
    asks_heads = "heads" in fields.choice(engine.abilities.relevance).sources
    place = engine.score_passes.place(read_holder(engine, raw_request)) if asks_heads else nullcontext()
    with place:  # one score pass at a time
        for prompt, placed, preparation in zip(prompts, parameters, prepared, strict=True):
            inner = Inner(engine.generate, prompt, placed, f"relevance-{uuid4().hex}", options)
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


async def _relevance(
    engine: RopewayEngine, inner: Inner, preparation: Preparation | PlainReason
) -> dict[str, Any]:
    # The body asks for relevance, so what could not be located was refused.
    assert isinstance(preparation, Preparation)
    located, spans = preparation.located, preparation.spans
    result: dict[str, Any] = {
        "query_rows": list(located.query_rows),
        "tokens": {"prompt": len(preparation.prompt.token_ids), "cached": 0},
        "sentences": [],
        "protected_prefix": None,
        "positions": None,
    }
    if not spans:
        return {**result, "reason": "too_few_sentences"}
    ranking = await engine.rank(inner, preparation)
    result["relevance"] = ranking.describe()
    result["seconds"] = {}
    for reading in ranking.readings:
        if reading.source == "heads":
            result["seconds"] = {"score": reading.seconds, "collect": reading.cost["collect"]}
            result["tokens"]["cached"] = reading.cost["cached"]
    z = torch.zeros(len(spans), dtype=torch.float64)
    try:
        z = ranking.z
        verdict = preparation.judge(ranking.readings, z)
        result["guard"] = asdict(verdict)
        modulation, scores = preparation.modulation(z, verdict.decision)
        result["protected_prefix"] = min(scores.protected_until)
        if (profile := engine.profiles.profile(inner.parameters)) is not None:
            result["positions"] = plane_positions(modulation, profile, located.num_tokens)
    except NothingToModulate as nothing:
        result["reason"] = nothing.reason
        scores = all_relevant(len(spans))
    rows = sentence_rows(z, scores, located.sentences)
    text = preparation.prompt.text
    for row, sentence in zip(rows, located.sentences, strict=True):
        row |= {"start_char": sentence.start_char, "end_char": sentence.end_char}
        row["text"] = text[sentence.start_char : sentence.end_char]
    return {**result, "sentences": rows}
