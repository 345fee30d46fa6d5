"""OpenTelemetry spans around a request's two passes, beside vLLM's `llm_request`.

vLLM's `--otlp-traces-endpoint` sets up where spans go; without it these record nothing.
"""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager

from opentelemetry import trace
from opentelemetry.trace import NoOpTracer, Status, StatusCode, Tracer, set_span_in_context
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

from server.request_record import PromptRecord

SPAN = "ropeway.qgpm"

_PROPAGATOR = TraceContextTextMapPropagator()
_NANOSECONDS = 1_000_000_000


class RequestTrace:
    """The span of a prompt from its arrival to its last token, under the caller's own.

    `headers`: what vLLM is to take as the trace context of both passes, so that its spans stand under this
    one; empty where nothing is traced.
    """

    def __init__(self, tracer: Tracer, headers: Mapping[str, str] | None, arrival: float) -> None:
        """`headers` of the request; `arrival` in seconds since the epoch."""
        self._tracer = tracer
        self._span = tracer.start_span(
            SPAN, context=_PROPAGATOR.extract(headers or {}), start_time=int(arrival * _NANOSECONDS)
        )
        self._context = set_span_in_context(self._span)
        self.headers: dict[str, str] = {}
        _PROPAGATOR.inject(self.headers, self._context)

    @staticmethod
    def of(headers: Mapping[str, str] | None, arrival: float) -> "RequestTrace":
        """The trace of a prompt that may take two passes."""
        return RequestTrace(trace.get_tracer("ropeway"), headers, arrival)

    @staticmethod
    def silent() -> "RequestTrace":
        """The trace of a plain prompt, which is vLLM's own alone."""
        return RequestTrace(NoOpTracer(), None, 0.0)

    @contextmanager
    def stage(self, name: str) -> Iterator[None]:
        """A span below for a stage; an exception is not recorded, since its message may hold text."""
        span = self._tracer.start_span(f"ropeway.{name}", context=self._context)
        try:
            yield
        finally:
            span.end()

    def end(self, request_id: str, record: PromptRecord) -> None:
        """Say what was done, and end."""
        said: dict[str, str | int | float | bool | None] = {
            "gen_ai.request.id": request_id,
            "ropeway.mode": record.mode,
            "ropeway.reason": record.reason,
            "ropeway.relevance": record.relevance,
            "ropeway.memo": record.memo,
            "ropeway.outcome": record.outcome,
            "ropeway.sentences": record.sentences,
            **{f"ropeway.tokens.{name}": count for name, count in record.tokens().items()},
            **{f"ropeway.seconds.{stage}": seconds for stage, seconds in record.seconds.items()},
        }
        self._span.set_attributes({name: value for name, value in said.items() if value is not None})
        if record.outcome == "error":
            self._span.set_status(Status(StatusCode.ERROR))
        self._span.end()
