"""Ropeway's metrics beside vLLM's own."""

from typing import Any

from prometheus_client import REGISTRY, CollectorRegistry, Counter, Histogram

from server.request_record import PromptRecord

_SECONDS = (0.001, 0.005, 0.02, 0.08, 0.25, 0.5, 1, 2.5, 5, 10, 20, 40, 80, 160, 640, 2560)


class Metrics:
    """Counts one observation per user request, both passes inside."""

    def __init__(self, registry: CollectorRegistry = REGISTRY) -> None:
        shared: dict[str, Any] = {"registry": registry}
        self._requests = Counter(
            "ropeway_requests_total",
            "Requests by mode and outcome; one whose fields cannot be read was rejected in mode qgpm.",
            ("mode", "outcome"),
            **shared,
        )
        self._ttft = Histogram(
            "ropeway_ttft_seconds",
            "Seconds from a request's arrival to its first token, both passes inside.",
            ("mode",),
            buckets=_SECONDS,
            **shared,
        )
        self._stages = Histogram(
            "ropeway_stage_seconds",
            "Seconds spent in a stage of a request.",
            ("stage",),
            buckets=_SECONDS,
            **shared,
        )

    def refuse(self) -> None:
        """Count a request whose fields could not be read, which keeps its mode unknown."""
        self._requests.labels("qgpm", "rejected").inc()

    def observe(self, record: PromptRecord) -> None:
        """Count a prompt that has ended."""
        self._requests.labels(record.mode, record.outcome).inc()
        for stage, seconds in record.seconds.items():
            self._stages.labels(stage).observe(seconds)
        if "first_token" in record.seconds:
            self._ttft.labels(record.mode).observe(record.seconds["first_token"])
