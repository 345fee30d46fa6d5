"""A server's metrics at one moment."""

import time
from collections.abc import Mapping
from dataclasses import dataclass

import httpx
from prometheus_client.parser import text_string_to_metric_families

_BUSY: tuple[tuple[str, dict[str, str]], ...] = (
    ("vllm:num_requests_running", {}),
    ("vllm:num_requests_waiting", {}),
    ("vllm:kv_cache_usage_perc", {}),
    ("ropeway_running_requests", {}),
    ("ropeway_cache_bytes", {"state": "used"}),
)
_OUTCOMES = ("success", "aborted", "error", "rejected")
_LOOK_SECONDS = 0.2


@dataclass(frozen=True, slots=True)
class Snapshot:
    """All samples: name, labels and value."""

    samples: tuple[tuple[str, Mapping[str, str], float], ...]

    @staticmethod
    def read(client: httpx.Client) -> "Snapshot":
        """Ask a server."""
        families = text_string_to_metric_families(client.get("/metrics").raise_for_status().text)
        return Snapshot(
            tuple((each.name, each.labels, each.value) for family in families for each in family.samples)
        )

    def total(self, name: str, **labels: str) -> float:
        """The sum of a metric's samples that have the labels."""
        return sum(
            value for found, own, value in self.samples if found == name and labels.items() <= own.items()
        )

    @property
    def busy(self) -> dict[str, float]:
        """What runs, waits, or holds blocks; empty where nothing does."""
        found = {name: self.total(name, **labels) for name, labels in _BUSY}
        return {name: value for name, value in found.items() if value}

    @property
    def outcomes(self) -> dict[str, int]:
        """Ended requests by outcome."""
        return {name: int(self.total("ropeway_requests_total", outcome=name)) for name in _OUTCOMES}


def settled(client: httpx.Client, seconds: float = 60) -> Snapshot:
    """The metrics once nothing runs and no block is in use, or those after so many seconds."""
    deadline = time.monotonic() + seconds
    while (found := Snapshot.read(client)).busy and time.monotonic() < deadline:
        time.sleep(_LOOK_SECONDS)
    return found
