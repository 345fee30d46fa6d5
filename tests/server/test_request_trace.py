"""A prompt's span stands under the caller's, and its passes under it."""

import pytest
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import StatusCode, Tracer

from server.request_record import Outcome, PromptRecord
from server.request_trace import SPAN, RequestTrace

CALLER_TRACE = "4bf92f3577b34da6a3ce929d0e0e4736"
CALLER_SPAN = "00f067aa0ba902b7"
HEADERS = {"traceparent": f"00-{CALLER_TRACE}-{CALLER_SPAN}-01"}


@pytest.fixture
def exporter() -> InMemorySpanExporter:
    return InMemorySpanExporter()


@pytest.fixture
def tracer(exporter: InMemorySpanExporter) -> Tracer:
    provider = TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    return provider.get_tracer("test")


def _record(outcome: Outcome) -> PromptRecord:
    record = PromptRecord(arrival=7.0, prompt_tokens=900, mode="qgpm", outcome=outcome)
    record.seconds |= {"score": 0.25}
    return record


def _spans(exporter: InMemorySpanExporter) -> dict[str, ReadableSpan]:
    return {span.name: span for span in exporter.get_finished_spans()}


def test_the_callers_trace_goes_through_both_passes(tracer: Tracer, exporter: InMemorySpanExporter) -> None:
    trace = RequestTrace(tracer, HEADERS, arrival=7.0)
    with trace.stage("score"):
        pass
    trace.end("chatcmpl-1", _record("success"))
    spans = _spans(exporter)
    whole, score = spans[SPAN], spans["ropeway.score"]
    assert whole.context is not None
    assert whole.parent is not None
    assert score.parent is not None
    assert f"{whole.context.trace_id:032x}" == CALLER_TRACE
    assert f"{whole.parent.span_id:016x}" == CALLER_SPAN
    assert score.parent.span_id == whole.context.span_id
    assert trace.headers == {"traceparent": f"00-{CALLER_TRACE}-{whole.context.span_id:016x}-01"}
    assert whole.start_time == 7_000_000_000


def test_a_span_says_what_was_done(tracer: Tracer, exporter: InMemorySpanExporter) -> None:
    RequestTrace(tracer, HEADERS, arrival=7.0).end("chatcmpl-1", _record("error"))
    span = _spans(exporter)[SPAN]
    assert span.attributes is not None
    assert span.attributes["gen_ai.request.id"] == "chatcmpl-1"
    assert span.attributes["ropeway.mode"] == "qgpm"
    assert span.attributes["ropeway.tokens.prompt"] == 900
    assert span.attributes["ropeway.seconds.score"] == 0.25
    assert "ropeway.reason" not in span.attributes
    assert span.status.status_code is StatusCode.ERROR


def test_the_message_of_an_exception_is_not_recorded(tracer: Tracer, exporter: InMemorySpanExporter) -> None:
    trace = RequestTrace(tracer, HEADERS, arrival=7.0)
    with pytest.raises(ValueError, match="secret"), trace.stage("score"):
        raise ValueError("secret text")
    span = _spans(exporter)["ropeway.score"]
    assert "secret" not in span.to_json()


def test_without_tracing_nothing_is_sent_along() -> None:
    assert RequestTrace.silent().headers == {}
    assert RequestTrace.of(None, arrival=7.0).headers == {}
