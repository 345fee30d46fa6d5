"""The memo's numbers as metrics."""

from collections.abc import Iterator

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from server.memo import RelevanceMemo


class MemoCollector(Collector):
    """Reads a memo when metrics are asked for."""

    def __init__(self, memo: RelevanceMemo) -> None:
        self._memo = memo

    def collect(self) -> Iterator[Metric]:
        """`ropeway_memo_…` and `ropeway_invalidations_total`."""
        memo = self._memo
        yield GaugeMetricFamily("ropeway_memo_entries", "Prompts whose relevance is remembered.", len(memo))
        yield GaugeMetricFamily("ropeway_memo_bytes", "Memory of remembered relevance.", memo.bytes)
        yield GaugeMetricFamily("ropeway_memo_limit_bytes", "What remembered relevance may take.", memo.limit)
        yield CounterMetricFamily("ropeway_memo_hits", "Score passes that the memo spared.", memo.hits)
        yield CounterMetricFamily("ropeway_memo_misses", "Prompts that the memo did not know.", memo.misses)
        yield CounterMetricFamily(
            "ropeway_memo_evictions", "Entries that went to make room for others.", memo.evictions
        )
        invalidations = CounterMetricFamily(
            "ropeway_invalidations",
            "Changes that made relevance stale, by cause.",
            labels=("cause",),
        )
        for cause, count in memo.invalidations.items():
            invalidations.add_metric((cause,), count)
        yield invalidations
