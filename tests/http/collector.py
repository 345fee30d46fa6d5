"""An OTLP collector over HTTP, which keeps the spans that a server sends."""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler
from typing import Any

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import (
    ExportTraceServiceRequest,
    ExportTraceServiceResponse,
)
from opentelemetry.proto.common.v1.common_pb2 import AnyValue
from opentelemetry.proto.trace.v1.trace_pb2 import Span

from loadtests.local_http import serving_by


@dataclass(frozen=True)
class Collector:
    """A collector that listens on `url`, and all `spans` that came so far."""

    url: str
    spans: list[Span]

    def of(self, trace_id: str, *names: str, seconds: float = 30) -> dict[str, Span]:
        """A trace's spans by name, once there is one of each name; AssertionError where one does not come."""
        deadline = time.monotonic() + seconds
        while True:
            found = {span.name: span for span in list(self.spans) if span.trace_id.hex() == trace_id}
            if found.keys() >= set(names):
                return found
            assert time.monotonic() < deadline, f"{sorted(found)} came, not {names}"
            time.sleep(0.1)


@contextmanager
def collecting() -> Iterator[Collector]:
    """Collect on a free port until the block ends."""
    spans: list[Span] = []

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            request = ExportTraceServiceRequest.FromString(
                self.rfile.read(int(self.headers["Content-Length"]))
            )
            for resource in request.resource_spans:
                for scope in resource.scope_spans:
                    spans.extend(scope.spans)
            answer = ExportTraceServiceResponse().SerializeToString()
            self.send_response(200)
            self.send_header("Content-Type", "application/x-protobuf")
            self.send_header("Content-Length", str(len(answer)))
            self.end_headers()
            self.wfile.write(answer)

        def log_message(self, format: str, *arguments: Any) -> None:
            """Say nothing."""

    with serving_by(Handler) as url:
        yield Collector(f"{url}/v1/traces", spans)


def attributes(span: Span) -> dict[str, str | int | float | bool]:
    """A span's attributes."""
    return {pair.key: _value(pair.value) for pair in span.attributes}


def _value(value: AnyValue) -> str | int | float | bool:
    kind = value.WhichOneof("value")
    assert kind is not None
    content: str | int | float | bool = getattr(value, kind)
    return content
