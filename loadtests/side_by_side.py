"""What `python -m loadtests.bench` does: Ropeway beside stock vLLM on this machine, in interleaved pairs."""

import asyncio
import json
import shlex
import sys
import time
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from typing import Any, get_args

import httpx
from rich.console import Console
from tqdm import tqdm

from cache import whole_file
from loadtests.asker import REUSE_TOKENS, Asker, hit_rate
from loadtests.entry import INTERRUPTED
from loadtests.machine import machine, versions
from loadtests.measurements import Sizes, measurements
from loadtests.memory import RequestCoordinates, Shadow, resident_bytes
from loadtests.options import Options
from loadtests.pairs import Measurement, measure
from loadtests.report import Report
from loadtests.rounds import Round, Side
from loadtests.stream import Timing
from loadtests.workload import Workload, tokens_per_sentence
from server import default_model
from server.child import Server, running_server
from server.default_model import DefaultModelError

READY_SECONDS = 1200
FAILURES = (RuntimeError, httpx.HTTPError, OSError)
_TABLE_WIDTH = 160
_NAMES: dict[Side, str] = {"stock": "stock vLLM", "ropeway": "Ropeway"}


@dataclass(slots=True)
class Bench:
    """Runs rounds and keeps what they find, also of a round that does not end."""

    options: Options
    model: str
    bar: "tqdm[Any]"
    rounds: list[Round] = field(default_factory=list)
    timings: list[Timing] = field(default_factory=list)
    shadow: Shadow | None = None
    coordinates: list[RequestCoordinates] = field(default_factory=list)

    def run_round(self, number: int) -> None:
        """Start both servers and measure them."""
        one = Round.numbered(number)
        self.rounds.append(one)
        with ExitStack() as stack:
            servers = {side: self._start(stack, one, side) for side in one.order}
            one.resident_bytes = {side: resident_bytes(server.pid) for side, server in servers.items()}
            stock, ropeway = servers["stock"], servers["ropeway"]
            measuring = self._measure(number, one, stock.url, ropeway.url)
            asyncio.run(stock.serving(ropeway.serving(measuring)))

    def report(self) -> Report:
        """What is known so far."""
        return Report(
            setting(self.options, len(self.rounds)),
            self.rounds,
            self.shadow,
            self.coordinates,
            hit_rate(self.timings),
        )

    def _start(self, stack: ExitStack, one: Round, side: Side) -> Server:
        self._step(f"starting {_NAMES[side]}")
        flags = [self.model, *self.options.serve_flags()]
        started = time.perf_counter()
        server = stack.enter_context(running_server(flags, stock=side == "stock", ready_within=READY_SECONDS))
        one.start_seconds[side] = time.perf_counter() - started
        return server

    async def _measure(self, number: int, one: Round, stock: str, ropeway: str) -> None:
        async with httpx.AsyncClient(timeout=600) as client:
            asker = Asker(client, Workload(await tokens_per_sentence(client, stock)), self.timings)
            self.shadow = self.shadow or await Shadow.read(client, ropeway)
            sizes = self.options.sizes.fitting(await window(client, stock))
            one.measurements = self._wanted(measurements(asker, stock, ropeway, sizes))
            self.bar.total = steps(self.options, one.measurements)
            # More numbers than a round uses, and so many that the order alternates from round to round too.
            odd = sizes.pairs + 1 + sizes.pairs % 2
            await measure(one.measurements, number * odd, self._step)
            if not self.coordinates:
                await self._read_coordinates(asker, ropeway, sizes)

    async def _read_coordinates(self, asker: Asker, url: str, sizes: Sizes) -> None:
        for tokens in sizes.qgpm:
            body = asker.workload.question(0, tokens, REUSE_TOKENS)
            self.coordinates.append(await RequestCoordinates.read(asker.client, url, body))

    def _wanted(self, every: list[Measurement]) -> list[Measurement]:
        wanted = named(every, self.options.only)
        if not wanted:
            names = ", ".join(measurement.name for measurement in every)
            raise RuntimeError(f"--only {self.options.only}: the measurements are {names}")
        return wanted

    def _step(self, name: str) -> None:
        """Show that the step before is done, and which one is next."""
        if self.bar.desc:
            self.bar.update()
        self.bar.set_description(f"round {len(self.rounds)} of {self.options.rounds}: {name}")


def named(every: Sequence[Measurement], part: str) -> list[Measurement]:
    """Those whose names hold a part."""
    return [measurement for measurement in every if part in measurement.name]


def steps(options: Options, of_a_round: Sequence[Measurement]) -> int:
    """How much all rounds have to do: starts, warm-ups and pairs."""
    return options.rounds * (len(get_args(Side)) + sum(measurement.steps for measurement in of_a_round))


def expected_steps(options: Options) -> int:
    """As many as there are where every length fits the model's window, which no server has told yet."""
    unasked = Asker(httpx.AsyncClient(), Workload(per_sentence=1.0))
    return steps(options, named(measurements(unasked, "", "", options.sizes), options.only))


async def window(client: httpx.AsyncClient, url: str) -> int:
    """The longest request that the served model takes, in tokens."""
    models = (await client.get(f"{url}/v1/models")).raise_for_status().json()["data"]
    return int(models[0]["max_model_len"])


def setting(options: Options, rounds: int) -> dict[str, Any]:
    """How a run went, without a date; JSON types only."""
    return {
        "model": options.model or "the default model",
        "machine": machine(),
        "versions": versions(),
        "how": "eager" if options.eager else "compiled",
        "flags": shlex.join(options.serve_flags()),
        "rounds": f"{rounds} of {options.rounds}",
        "pairs a round": options.sizes.pairs,
    }


def main(arguments: Sequence[str]) -> int:
    """Run the rounds, print; 0 if every promise holds, `INTERRUPTED` after a signal, 2 if nothing began."""
    options = Options.parse(arguments)
    try:
        if options.out is not None:
            options.out.parent.mkdir(parents=True, exist_ok=True)
            whole_file.check_writable(options.out)
        model = options.model or str(default_model.fetch())
    except (OSError, DefaultModelError) as error:
        print(f"bench: {error}", file=sys.stderr)
        return 2
    bench = Bench(options, model, tqdm(total=expected_steps(options), unit="step"))
    status = 0
    try:
        try:
            for number in range(options.rounds):
                bench.run_round(number)
                _save(bench)
            # The last step is done.
            bench.bar.update()
        finally:
            _save(bench)
    except KeyboardInterrupt:
        status = INTERRUPTED
    except FAILURES as error:
        print(f"bench: {error}", file=sys.stderr)
        status = 1
    bench.bar.close()
    bench.report().print(_console())
    if status == INTERRUPTED:
        print("Interrupted: these are the pairs that were finished.")
    if status:
        return status
    return 0 if bench.report().holds else 1


def _console() -> Console:
    """As wide as the terminal, and wide enough for the tables where the output goes elsewhere."""
    return Console() if sys.stdout.isatty() else Console(width=_TABLE_WIDTH)


def _save(bench: Bench) -> None:
    if bench.options.out is not None:
        whole_file.write(bench.options.out, json.dumps(bench.report().to_json(), indent=2) + "\n")
