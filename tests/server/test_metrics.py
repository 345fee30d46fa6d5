"""What Ropeway's own metrics show, before and behind their first event."""

import torch
from prometheus_client import CollectorRegistry

from positional.sources.contract import Reading, SourceError
from positional.sources.fusion import Choice
from server.metrics import Metrics
from server.ranking import Ranking
from server.request_record import PromptRecord


def _value(registry: CollectorRegistry, name: str, **labels: str) -> float | None:
    return registry.get_sample_value(f"ropeway_{name}", labels)


def test_series_are_there_before_their_first_event() -> None:
    registry = CollectorRegistry()
    Metrics(registry)
    shown = [
        _value(registry, "requests_total", mode="evidence", outcome="aborted"),
        _value(registry, "refused_requests_total", reason="forged"),
        _value(registry, "limited_requests_total", limit="body"),
        _value(registry, "stage_seconds_count", stage="score"),
        _value(registry, "ttft_seconds_count", mode="qgpm", relevance="heads", memo="hit"),
        _value(registry, "ready"),
        _value(registry, "seconds_since_progress"),
    ]
    assert shown == [0] * 7
    assert _value(registry, "requests_total", mode="plain", outcome="running") is None


def test_a_first_token_is_counted_by_where_relevance_came_from() -> None:
    registry = CollectorRegistry()
    metrics = Metrics(registry)
    seen = (
        ("plain", "none", "none", PromptRecord(0, 9)),
        ("qgpm", "heads", "miss", PromptRecord(0, 9, mode="qgpm", relevance="heads", score_cached=0)),
        ("qgpm", "heads", "hit", PromptRecord(0, 9, mode="qgpm", relevance="heads", memo=True)),
        ("qgpm", "lexical", "none", PromptRecord(0, 9, mode="qgpm", relevance="lexical")),
        ("qgpm", "fused", "none", PromptRecord(0, 9, mode="qgpm", relevance="fused")),
        ("qgpm", "fused", "miss", PromptRecord(0, 9, mode="qgpm", relevance="fused", score_cached=5)),
        ("evidence", "caller", "none", PromptRecord(0, 9, mode="evidence", relevance="caller")),
        # All its sentences were equally relevant, which a score pass found.
        ("plain", "heads", "miss", PromptRecord(0, 9, relevance="heads", score_cached=0)),
    )
    for number, (mode, relevance, memo, record) in enumerate(seen, start=1):
        record.seconds["first_token"] = number
        metrics.first_token(record)
        labels = {"mode": mode, "relevance": relevance, "memo": memo}
        assert _value(registry, "ttft_seconds_count", **labels) == 1
        assert _value(registry, "ttft_seconds_sum", **labels) == number


def test_a_prompt_that_has_ended_is_counted_with_its_stages() -> None:
    registry = CollectorRegistry()
    Metrics(registry).observe(PromptRecord(0, 9, mode="qgpm", seconds={"score": 0.5}, outcome="success"))
    assert _value(registry, "requests_total", mode="qgpm", outcome="success") == 1
    assert _value(registry, "stage_seconds_sum", stage="score") == 0.5
    assert _value(registry, "stage_seconds_count", stage="maps") == 0


def test_refusals_are_counted_by_reason_and_by_limit() -> None:
    registry = CollectorRegistry()
    metrics = Metrics(registry)
    metrics.reject()
    metrics.refuse("rope")
    metrics.limit("document")
    assert _value(registry, "requests_total", mode="qgpm", outcome="rejected") == 1
    assert _value(registry, "refused_requests_total", reason="rope") == 1
    assert _value(registry, "limited_requests_total", limit="document") == 1


def test_readiness_is_read_when_it_is_asked_for() -> None:
    registry = CollectorRegistry()
    metrics = Metrics(registry)
    state = {"ready": True, "seconds": 0.0}
    metrics.watch(lambda: bool(state["ready"]), lambda: float(state["seconds"]))
    assert (_value(registry, "ready"), _value(registry, "seconds_since_progress")) == (1, 0)
    state |= {"ready": False, "seconds": 31.5}
    assert (_value(registry, "ready"), _value(registry, "seconds_since_progress")) == (0, 31.5)


def test_what_sources_took_and_which_failed_is_counted() -> None:
    registry = CollectorRegistry()
    metrics = Metrics(registry)
    choice = Choice((("lexical", 1.0), ("embedding", 1.0)))
    z = torch.zeros(2, dtype=torch.float64)
    failed = SourceError("embedding", "APITimeoutError")
    metrics.ranked(Ranking(choice, (Reading("lexical", z, 0.25), failed)))
    assert _value(registry, "source_seconds_sum", source="lexical") == 0.25
    assert _value(registry, "source_seconds_count", source="embedding") == 0
    assert _value(registry, "source_failures_total", source="embedding") == 1
    assert _value(registry, "source_failures_total", source="lexical") == 0
