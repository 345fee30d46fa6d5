"""The load tool's worker: whole bodies of our own, and the time of every delta that holds text."""

import re
import signal
import time
from itertools import pairwise
from typing import Any

from guidellm.backends.openai import OpenAIHTTPBackend
from guidellm.backends.openai.request_handlers import OpenAIRequestHandler, OpenAIRequestHandlerFactory
from guidellm.schemas import (
    GenerationRequest,
    GenerationRequestArguments,
    GenerationResponse,
    RequestInfo,
)

from loadtests.load.observation import Observation

BODY = "body"
PART = "part"
NUMBER = "number"
_TIMES = "token_times"


class _Timed(OpenAIRequestHandler):
    """A handler of the tool that also notes when each delta with text came."""

    def __init__(self, inner: OpenAIRequestHandler) -> None:
        self._inner = inner
        self._times: list[float] = []

    @property
    def last_iteration_had_content(self) -> bool:
        return self._inner.last_iteration_had_content

    def format(
        self, data: GenerationRequest, history: Any = None, **kwargs: Any
    ) -> GenerationRequestArguments:
        return self._inner.format(data, history, **kwargs)

    def add_streaming_line(self, line: str) -> int | None:
        added = self._inner.add_streaming_line(line)
        if added:
            self._times.append(time.time())
        return added

    def compile_streaming(
        self, request: GenerationRequest, arguments: GenerationRequestArguments
    ) -> GenerationResponse:
        response = self._inner.compile_streaming(request, arguments)
        return response.model_copy(update={"response_metrics": {_TIMES: self._times}})

    def compile_non_streaming(
        self, request: GenerationRequest, arguments: GenerationRequestArguments, response: Any
    ) -> GenerationResponse:
        return self._inner.compile_non_streaming(request, arguments, response)

    def post_validation(self, response: GenerationResponse) -> None:
        self._inner.post_validation(response)


class Backend(OpenAIHTTPBackend):
    """Sends the body that each request carries; the tool's own can only vary its messages."""

    async def process_startup(self) -> None:
        """Leave signals to the parent, which stops its workers in order; killed, they leave locks behind."""
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, signal.SIG_IGN)
        await super().process_startup()  # type: ignore[no-untyped-call]

    async def _prepare_resolve_request(
        self, request: GenerationRequest, history: Any = None
    ) -> tuple[OpenAIRequestHandler, GenerationRequestArguments, dict[str, Any]]:
        [body] = request.columns[BODY]
        asked = {**body, "stream": True, "stream_options": {"include_usage": True}}
        path = self._args.request_format
        call = {
            "method": "POST",
            "url": self._args.target + path,
            "json": asked,
            "headers": self._build_headers(),
        }
        handler = _Timed(OpenAIRequestHandlerFactory.create(path))
        return handler, GenerationRequestArguments(stream=True), call


def observation(
    request: GenerationRequest, info: RequestInfo, response: GenerationResponse | None
) -> Observation | None:
    """What a request that ended came to; None for one that was never sent."""
    times = info.timings
    if times.request_start is None:
        return None
    [number], [part] = request.columns[NUMBER], request.columns[PART]
    ended = times.request_end or times.resolve_end or times.request_start
    if info.status != "completed" or response is None:
        return Observation(number, part, times.request_start, ended, error=_error(info))
    stats = response.compile_stats(request, info)
    if stats.time_to_first_token_ms is None:
        return Observation(number, part, times.request_start, ended, error="no text")
    seen: list[float] = (response.response_metrics or {})[_TIMES]
    per_token = stats.inter_token_latency_ms
    return Observation(
        number,
        part,
        times.request_start,
        ended,
        first_token=stats.time_to_first_token_ms / 1000,
        per_token=None if per_token is None else per_token / 1000,
        gaps=tuple(after - before for before, after in pairwise(seen)),
        prompt_tokens=stats.prompt_tokens or 0,
        cached_tokens=stats.cached_tokens,
        output_tokens=stats.output_tokens or 0,
        late=max(stats.request_dispatch_delay or 0.0, 0.0),
    )


def _error(info: RequestInfo) -> str:
    """The kind of an error: the status, what the stream told, or the exception's name."""
    if info.status == "cancelled":
        return "unfinished"
    text = info.error or "unknown"
    if status := re.search(r"error '(\d{3})", text):
        return f"HTTP {status[1]}"
    if told := re.search(r"returned an error: (.{1,60}?)(?:['\"]\)|$)", text):
        return f"in the stream: {told[1]}"
    return "no text" if "UNUSABLE" in text else text.partition("(")[0]
