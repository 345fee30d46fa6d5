"""The chat and completion handlers of vLLM behind the body fields `qgpm` and `rope`."""

import asyncio
import re
from collections.abc import Awaitable, Callable, Iterable, Mapping
from typing import Any, TypeAlias

from fastapi import Request
from vllm.entrypoints.openai.chat_completion.protocol import ChatCompletionRequest
from vllm.entrypoints.openai.chat_completion.serving import OpenAIServingChat
from vllm.entrypoints.openai.completion.protocol import CompletionRequest
from vllm.entrypoints.openai.completion.serving import OpenAIServingCompletion

from server.engine import RopewayEngine
from server.fields import FieldError, QGPMFields
from server.intent import Intent, carrying
from server.locate import Source
from server.preparation import Abilities
from server.request_error import RequestError
from server.rope_choice import NOTHING_TO_REPLACE, ServedRope, Wish
from server.rope_fields import RopeFields

_LONE_SURROGATE = re.compile("[\ud800-\udfff]")

Body: TypeAlias = ChatCompletionRequest | CompletionRequest


def check_request_id(body: Body) -> None:
    """Raise RequestError for an id that no answer could tell."""
    if _LONE_SURROGATE.search(body.request_id):
        raise RequestError("request_id must be text; it holds half of a surrogate pair", "request_id")


def read_fields(body: Body, abilities: Abilities) -> QGPMFields:
    """The body's `qgpm`; raises RequestError, also for a body that cannot have it."""
    value = (body.model_extra or {}).get("qgpm")
    try:
        fields = QGPMFields.parse(value, abilities.defaults, abilities.enabled_by_default)
    except FieldError as error:
        raise RequestError(error.message, error.parameter) from error
    if fields.evidence is not None:
        texts = [text for text, _ in fields.evidence]
        abilities.limits.check_evidence(len(texts), sum(map(len, texts)))
    if fields.enabled and body.use_beam_search:
        if fields.asked:
            raise RequestError("qgpm cannot be used with beam search", "qgpm")
        return QGPMFields(False, asked=False)
    return fields


def read_rope(body: Body, served: ServedRope | None) -> Wish | None:
    """The rule that the body's `rope` asks for; raises RequestError, also for a body that cannot have it."""
    value = (body.model_extra or {}).get("rope")
    if value is None:
        return None
    if body.use_beam_search:
        raise RequestError("rope cannot be used with beam search", "rope")
    if served is None:
        raise RequestError(NOTHING_TO_REPLACE, "rope")
    try:
        return RopeFields.parse(value, served.model, served.declared).wish
    except FieldError as error:
        raise RequestError(error.message, error.parameter) from error


def read_holder(engine: RopewayEngine, raw_request: Request | None) -> bytes | None:
    """Whose API key a request came with; None without a valid one."""
    header = None if raw_request is None else raw_request.headers.get("authorization")
    return engine.api_keys.holder(header)


def read_max_tokens(body: Body) -> int | None:
    """How long the answer may be, where the body says it."""
    if isinstance(body, CompletionRequest):
        return body.max_tokens
    return body.max_tokens if body.max_completion_tokens is None else body.max_completion_tokens


async def gives_max_tokens(body: Body, raw_request: Request | None) -> bool:
    """Whether a request says how long its answer may be.

    vLLM writes OpenAI's default of completions where nothing was said, so what was sent has to be seen.
    """
    limit = read_max_tokens(body)
    default = CompletionRequest.model_fields["max_tokens"].default
    if isinstance(body, CompletionRequest) and limit == default and raw_request is not None:
        return (await raw_request.json()).get("max_tokens") is not None
    return limit is not None


def keep_parts(body: Body) -> None:
    """Make lists of the parts that could be read only once, so that the prompt does not lack what we read.

    pydantic checks the parts of a message lazily where the message has a member of another type than vLLM
    knows it by. Raises ValidationError for a part that is none, as rendering would.
    """
    for message in [] if isinstance(body, CompletionRequest) else body.messages:
        if isinstance(message, dict) and not isinstance(message.get("content"), str | list | None):
            message["content"] = list(message["content"])


def read_source(body: Body) -> Source:
    """Where the body's texts come from; each text part of a message counts as a message of its role.

    After `keep_parts`. A message in the form of gpt-oss has no text that vLLM would keep.
    """
    if isinstance(body, CompletionRequest):
        return Source()
    messages = [
        (str(message["role"]), text)
        for message in body.messages
        if isinstance(message, dict)
        for text in _texts(message)
    ]
    return Source(tuple(messages), bool(body.continue_final_message))


def _texts(message: Mapping[str, Any]) -> Iterable[str]:
    content = message.get("content")
    if content is None or isinstance(content, str):
        return [content or ""]
    parts = [part if isinstance(part, str) else part.get("text") for part in content]
    return [part for part in parts if isinstance(part, str)]


class ChatHandler:
    """vLLM's chat handler, with `qgpm` and `rope`."""

    def __init__(self, stock: OpenAIServingChat, engine: RopewayEngine) -> None:
        self.stock = stock
        self._engine = engine

    def __getattr__(self, name: str) -> Any:
        return getattr(self.stock, name)

    async def create_chat_completion(
        self, request: ChatCompletionRequest, raw_request: Request | None = None
    ) -> Any:
        """Answer a chat; raises RequestError before anything is streamed."""
        return await _answer(self._engine, request, self.stock.create_chat_completion, raw_request)


class CompletionHandler:
    """vLLM's completion handler, with `qgpm` and `rope`."""

    def __init__(self, stock: OpenAIServingCompletion, engine: RopewayEngine) -> None:
        self.stock = stock
        self._engine = engine

    def __getattr__(self, name: str) -> Any:
        return getattr(self.stock, name)

    async def create_completion(self, request: CompletionRequest, raw_request: Request | None = None) -> Any:
        """Complete prompts; raises RequestError before anything is streamed."""
        return await _answer(self._engine, request, self.stock.create_completion, raw_request)


async def _answer(
    engine: RopewayEngine, body: Body, create: Callable[..., Awaitable[Any]], raw_request: Request | None
) -> Any:
    try:
        check_request_id(body)
        keep_parts(body)
        fields = read_fields(body, engine.abilities)
        rope = read_rope(body, engine.rope)
    except RequestError:
        engine.metrics.reject()
        raise
    if body.use_beam_search:
        return await create(body, raw_request)
    intent = Intent(
        fields,
        read_source(body),
        rope,
        await gives_max_tokens(body, raw_request),
        numbered=isinstance(body, CompletionRequest),
        holder=read_holder(engine, raw_request),
    )
    try:
        with carrying(intent):
            response = await create(body, raw_request)
        await intent.prepared()
    except asyncio.CancelledError:  # its client has left
        intent.abandon("aborted")
        raise
    except Exception:
        intent.abandon("rejected")
        raise
    return response
