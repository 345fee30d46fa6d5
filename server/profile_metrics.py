"""Which rules of RoPE running requests go by, as metrics."""

from collections.abc import Iterator

from prometheus_client.core import GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from server.default_profile import DefaultProfile


class ProfileCollector(Collector):
    """Reads the server's default and who goes by it when metrics are asked for.

    Requests may bring any number of rules, so a rule's digest is no label.
    """

    def __init__(self, profiles: DefaultProfile) -> None:
        self._profiles = profiles

    def collect(self) -> Iterator[Metric]:
        """`ropeway_running_requests` and `ropeway_default_generation`."""
        running, now = self._profiles.running(), self._profiles.generation
        own, default = running.pop(None, 0), running.pop(now, 0)
        family = GaugeMetricFamily(
            "ropeway_running_requests",
            "Prompts between the door and their end, by the RoPE rule they go by: the server's default, an "
            "earlier default, or one of their own.",
            labels=("profile",),
        )
        for profile, count in (("default", default), ("earlier", running.total()), ("own", own)):
            family.add_metric((profile,), count)
        yield family
        yield GaugeMetricFamily(
            "ropeway_default_generation", "How often the server's default RoPE rule was changed.", now
        )
