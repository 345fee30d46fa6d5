"""Ropeway's metrics beside vLLM's own; every label's values are known from the start."""

from collections.abc import Callable, Iterable
from typing import Any, get_args

from prometheus_client import REGISTRY, CollectorRegistry, Counter, Gauge, Histogram

from positional.guard import Decision
from positional.sources.contract import SourceError
from server.limits import Limit
from server.ranking import Ranking
from server.refusal import Reason
from server.relevance_choice import SOURCES
from server.request_record import Mode, Outcome, PromptRecord, Stage

_SECONDS = (0.001, 0.005, 0.02, 0.08, 0.25, 0.5, 1, 2.5, 5, 10, 20, 40, 80, 160, 640, 2560)
# What requests usually show; a request that turned out plain behind its score pass shows others.
_USUAL = (
    ("plain", "none", "none"),
    ("qgpm", "heads", "miss"),
    ("qgpm", "heads", "hit"),
    ("qgpm", "lexical", "none"),
    ("qgpm", "embedding", "none"),
    ("qgpm", "fused", "none"),
    ("qgpm", "fused", "miss"),
    ("qgpm", "fused", "hit"),
    ("evidence", "caller", "none"),
)


class Metrics:
    """Counts one observation per user request, both passes inside; nothing is done per token."""

    def __init__(self, registry: CollectorRegistry = REGISTRY) -> None:
        shared: dict[str, Any] = {"registry": registry}
        self._requests = Counter(
            "ropeway_requests_total",
            "Requests by mode and outcome; one whose fields cannot be read was rejected in mode qgpm.",
            ("mode", "outcome"),
            **shared,
        )
        self._refused = Counter(
            "ropeway_refused_requests_total",
            "Requests refused with 400, by what was wrong: qgpm, a text that the prompt lacks, rope, the "
            "length under a rule, a forged extra argument, an endpoint without our fields, or another value.",
            ("reason",),
            **shared,
        )
        self._limited = Counter(
            "ropeway_limited_requests_total",
            "Requests refused by 400, 413 or 429 because they exceed a limit of the server, by limit.",
            ("limit",),
            **shared,
        )
        self._ttft = Histogram(
            "ropeway_ttft_seconds",
            "Seconds from a request's arrival to its first token, both passes inside, by mode, by where "
            "relevance came from, and by whether it was remembered.",
            ("mode", "relevance", "memo"),
            buckets=_SECONDS,
            **shared,
        )
        self._stages = Histogram(
            "ropeway_stage_seconds",
            "Seconds in a stage of a request: locate, score (collect is its last part), maps, answer (until "
            "the first token); first_token and total count from the arrival.",
            ("stage",),
            buckets=_SECONDS,
            **shared,
        )
        self._sources = Histogram(
            "ropeway_source_seconds",
            "Seconds that a source of relevance took for a prompt; several work at once.",
            ("source",),
            buckets=_SECONDS,
            **shared,
        )
        self._failed_sources = Counter(
            "ropeway_source_failures_total",
            "Prompts for which a source of relevance gave nothing: others decided, or the answer was plain.",
            ("source",),
            **shared,
        )
        self._guarded = Counter(
            "ropeway_guard_decisions_total",
            "Prompts whose relevance the guard judged, by what it let QGPM do: full, soft, or plain.",
            ("decision",),
            **shared,
        )
        self._ready = Gauge(
            "ropeway_ready", "1 while /ready answers 200, else 0: starting, draining or stalled.", **shared
        )
        self._idle = Gauge(
            "ropeway_seconds_since_progress",
            "Seconds since the engine last made progress while requests run; 0 while none runs.",
            **shared,
        )
        self._show_all()

    def watch(self, ready: Callable[[], bool], since_progress: Callable[[], float]) -> None:
        """Read readiness and the seconds without progress when metrics are asked for."""
        self._ready.set_function(lambda: float(ready()))
        self._idle.set_function(since_progress)

    def reject(self) -> None:
        """Count a request whose fields could not be read, which keeps its mode unknown."""
        self._requests.labels("qgpm", "rejected").inc()

    def refuse(self, reason: Reason) -> None:
        """Count a request that was answered by 400 for its fields."""
        self._refused.labels(reason).inc()

    def limit(self, limit: Limit) -> None:
        """Count a request that exceeded a limit."""
        self._limited.labels(limit).inc()

    def ranked(self, ranking: Ranking) -> None:
        """Count what the sources of a prompt's relevance took."""
        for found in ranking.found:
            if isinstance(found, SourceError):
                self._failed_sources.labels(found.source).inc()
            else:
                self._sources.labels(found.source).observe(found.seconds)

    def guarded(self, decision: Decision) -> None:
        """Count a verdict on a prompt's relevance."""
        self._guarded.labels(decision).inc()

    def first_token(self, record: PromptRecord) -> None:
        """Count a prompt's first token."""
        labels = (record.mode, record.relevance, record.remembered)
        self._ttft.labels(*labels).observe(record.seconds["first_token"])

    def observe(self, record: PromptRecord) -> None:
        """Count a prompt that has ended."""
        self._requests.labels(record.mode, record.outcome).inc()
        for stage, seconds in record.seconds.items():
            self._stages.labels(stage).observe(seconds)

    def _show_all(self) -> None:
        """Make the series before their first event, which would otherwise be no increase."""
        for mode in get_args(Mode):
            for outcome in get_args(Outcome):
                if outcome != "running":
                    self._requests.labels(mode, outcome)
        for family, values in (
            (self._refused, get_args(Reason)),
            (self._limited, get_args(Limit)),
            (self._stages, get_args(Stage)),
            (self._sources, SOURCES),
            (self._failed_sources, SOURCES),
            (self._guarded, get_args(Decision)),
        ):
            _make(family, ((value,) for value in values))
        _make(self._ttft, _USUAL)


def _make(family: Counter | Histogram, labels: Iterable[tuple[str, ...]]) -> None:
    for values in labels:
        family.labels(*values)
