"""One run: what the server understands, then each scenario under each arrival."""

import asyncio
import platform
import time
import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from importlib.metadata import version
from typing import Any

import httpx
from rich.console import Console
from tqdm import tqdm

from loadtests.load.arrival import Arrival
from loadtests.load.measures import hit_rate, measured, spread
from loadtests.load.observation import Observation
from loadtests.load.options import Options
from loadtests.load.phase import Extent, run
from loadtests.load.report import Report
from loadtests.load.scenarios import SCENARIOS, Scenario, Writer, understood
from loadtests.load.target import Hits, Target, cache_bytes

_LEAST_SECONDS = 5.0


@dataclass(frozen=True, slots=True)
class Session:
    """Measures `target`; `stopping` ends it early with what there is."""

    options: Options
    target: Target
    client: httpx.Client
    console: Console
    stopping: asyncio.Event

    async def measure(self, scenarios: Sequence[Scenario], report: Report) -> None:
        """Fill the report, and its file after every measurement; raises OSError where that cannot be kept."""
        phases = len(scenarios) * len(self.options.arrivals)
        until = time.monotonic() + 60 * self.options.minutes
        form = "{desc} {percentage:3.0f}%|{bar}| {elapsed}<{remaining}{postfix}"
        with tqdm(total=phases, bar_format=form) as bar:
            for scenario in scenarios:
                reached: float | None = None
                for wanted in self.options.arrivals:
                    if self.stopping.is_set():
                        break
                    arrival = wanted.settled(reached)
                    if arrival is None:
                        report.skipped[f"{scenario.name}, {wanted}"] = "no request was answered before it"
                        bar.update()
                        continue
                    # Phases that took longer than their share leave less to those after them.
                    seconds = max((until - time.monotonic()) / (phases - bar.n), _LEAST_SECONDS)
                    line = await self._phase(scenario, arrival, seconds, bar)
                    report.scenarios.append(line)
                    if not arrival.open:
                        reached = line["requests_per_second"]
                    self._keep(report)
        report.interrupted = self.stopping.is_set()
        self._keep(report)

    def setting(self) -> dict[str, Any]:
        """How this run measures, and where from."""
        # Workers of the load tool import what this module imports, and PyTorch takes its time.
        from loadtests.machine import machine

        options, target = self.options, self.target
        return {
            "url": target.url,
            "model": target.model,
            "endpoint": target.endpoint,
            "nonce": options.nonce,
            "tokens": options.tokens,
            "max_tokens": options.max_tokens,
            "fixed_length": bool(target.extras),
            "minutes": options.minutes if options.requests is None else None,
            "requests": options.requests,
            "client": machine(),
            "versions": {"guidellm": version("guidellm"), "python": platform.python_version()},
        }

    def understood(self, report: Report) -> list[Scenario]:
        """The wanted scenarios that the server takes; the others are noted. Raises TargetError."""
        chosen = [scenario for scenario in SCENARIOS if scenario.name in self.options.scenarios]
        scenarios = []
        for asked in chosen:
            scenario, reason = understood(self.client, self._writer, asked)
            if reason is None:
                scenarios.append(scenario)
            else:
                report.skipped[asked.name] = reason
                self.console.print(
                    f"left out: {asked.name}: {reason}", highlight=False, markup=False, soft_wrap=True
                )
        return scenarios

    @property
    def _writer(self) -> Writer:
        return Writer(self.target, self.options.nonce, self.options.tokens, self.options.max_tokens)

    async def _phase(
        self, scenario: Scenario, arrival: Arrival, seconds: float, bar: "tqdm[Any]"
    ) -> dict[str, Any]:
        writer, name = self._writer, arrival.kind
        extent = Extent(max(self.options.warm_up, arrival.at_once), seconds, self.options.requests)
        seed = zlib.crc32(f"{self.options.nonce} {scenario.name} {name}".encode())
        bar.set_description(f"{scenario.name}, {arrival}")
        began, failed = bar.n, 0
        warm_up: list[Observation] = []
        seen: list[Observation] = []
        before = Hits.read(self.client, self.target.url)
        updates = run(
            self.target, arrival, extent, lambda n: writer.ask(scenario, name, n), seed, self.stopping
        )
        async for one, share in updates:
            (warm_up if one.number < extent.warm_up else seen).append(one)
            failed += one.error is not None
            bar.set_postfix_str(f"{len(warm_up) + len(seen)} ended, {failed} of them failed", refresh=False)
            bar.update(max(began + share - bar.n, 0))
        bar.update(began + 1 - bar.n)
        return {
            "name": scenario.name,
            "arrival": {**arrival.to_json(), "text": str(arrival)},
            "warm_up": _warm_up(warm_up),
            **measured(seen, arrival.at_once, self.options.objective),
            # How much later than due the load tool sent: large where this machine is the bottleneck.
            "late": spread(one.late for one in seen) if arrival.open else {},
            **self._hits([one for one in seen if one.error is None], before),
            "cache_bytes": cache_bytes(self.client, self.target.url),
        }

    def _hits(self, answered: list[Observation], before: Hits | None) -> dict[str, Any]:
        """The hit rate and where it is from: the answers, or else the server's own count, warm-up too."""
        told = hit_rate(answered)
        if told is not None:
            return {"hit_rate": told, "hit_rate_from": "usage"}
        after = Hits.read(self.client, self.target.url)
        if before is None or after is None:
            return {"hit_rate": None, "hit_rate_from": None}
        return {"hit_rate": after.rate_since(before), "hit_rate_from": "metrics"}

    def _keep(self, report: Report) -> None:
        if self.options.out is not None:
            report.write(self.options.out)


def _warm_up(seen: list[Observation]) -> dict[str, Any]:
    if not seen:
        return {"requests": 0, "errors": 0, "seconds": 0.0}
    seconds = max(one.ended for one in seen) - min(one.started for one in seen)
    return {
        "requests": len(seen),
        "errors": sum(one.error is not None for one in seen),
        "seconds": seconds,
    }
