"""`python -m loadtests.bench`: Ropeway beside stock vLLM on this machine, in interleaved pairs."""

import argparse
import asyncio
import json
import os
import platform
import shlex
import signal
import sys
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

import httpx
from rich.console import Console
from tqdm import tqdm

from loadtests.pairs import Asker, Measurement, Result, measurements
from loadtests.report import Report, Shadow
from loadtests.workload import MODEL, Workload, tokens_per_sentence
from server import default_model
from server.child import Server, running_server
from server.compiler import can_compile

QGPM_LENGTHS = (2000, 6000)
READY_SECONDS = 1200


@dataclass(frozen=True, slots=True)
class Options:
    """How to measure; `out` is where the JSON goes."""

    model: str | None
    pairs: int
    tokens: int
    max_tokens: int
    lengths: tuple[int, ...]
    eager: bool
    flags: tuple[str, ...]
    only: str
    out: Path | None

    @staticmethod
    def parse(arguments: Sequence[str]) -> "Options":
        """Read a command line."""
        args = _parser().parse_args(arguments)
        eager = not can_compile()[0] if args.eager is None else args.eager
        quick: bool = args.quick
        return Options(
            model=args.model,
            pairs=args.pairs or (3 if quick else 10),
            tokens=args.tokens or (300 if quick else 1000),
            max_tokens=8 if quick else 32,
            lengths=(600,) if quick else QGPM_LENGTHS,
            eager=eager,
            flags=tuple(shlex.split(args.serve_flags)),
            only=args.only,
            out=args.out,
        )


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m loadtests.bench",
        description="Measure Ropeway against stock vLLM over HTTP streaming: both serve the same model with "
        "the same flags, one of them is asked at a time, and the order alternates. The status is 0 if every "
        "promise holds.",
    )
    parser.add_argument("--model", help="a model folder or hub name (default: the default model)")
    parser.add_argument("--pairs", type=_positive, help="pairs of each measurement (default: 10; quick: 3)")
    parser.add_argument(
        "--tokens", type=_positive, help="prompt tokens of plain requests (default: 1000; quick: 300)"
    )
    parser.add_argument(
        "--quick",
        action="store_true",
        help="few and short requests, to see that it runs; nothing to quote",
    )
    compiled = parser.add_mutually_exclusive_group()
    compiled.add_argument(
        "--compiled",
        dest="eager",
        action="store_false",
        default=None,
        help="with torch.compile (default where a C++ compiler and the Python headers are)",
    )
    compiled.add_argument("--eager", dest="eager", action="store_true", help="without (default elsewhere)")
    parser.add_argument("--serve-flags", default="", metavar="FLAGS", help="more flags, for both servers")
    parser.add_argument(
        "--only",
        default="",
        metavar="TEXT",
        help="only measurements whose name holds it (qgpm, reuse …)",
    )
    parser.add_argument("--out", type=Path, metavar="FILE", help="write everything as JSON")
    return parser


def _positive(text: str) -> int:
    value = int(text)
    if value < 1:
        raise argparse.ArgumentTypeError(f"{value} is not positive")
    return value


def serve_flags(options: Options) -> list[str]:
    """The flags of both servers; vLLM binds each one's worker to the same cores."""
    flags = ["--dtype", "bfloat16", "--served-model-name", MODEL, "--enable-prompt-tokens-details"]
    flags += ["--kv-cache-memory-bytes", "1G", "--gpu-memory-utilization", "0.3"]
    return [*flags, *(["--enforce-eager"] if options.eager else []), *options.flags]


async def measure(measured: Sequence[Measurement], pairs: int) -> None:
    """Warm everything up, then add `pairs` pairs to each measurement, all of them in turns."""
    with tqdm(total=len(measured) * (pairs + 1), unit="pair") as bar:
        for measurement in measured:
            bar.set_description(f"warming up: {measurement.name}")
            await measurement.warm_up(pairs)
            bar.update()
        for number in range(pairs):
            for measurement in measured:
                bar.set_description(measurement.name)
                await measurement.add_pair(number)
                bar.update()


async def run(options: Options, stock: Server, ropeway: Server) -> Report:
    """Measure two servers that are ready."""
    with httpx.Client(timeout=60) as client:
        per_sentence = tokens_per_sentence(client, stock.url)
        shadow = read_shadow(client, ropeway.url)
    async with httpx.AsyncClient(timeout=600) as client:
        asker = Asker(client, Workload(per_sentence))
        every = measurements(
            asker, stock.url, ropeway.url, options.tokens, options.lengths, options.max_tokens
        )
        measured = [measurement for measurement in every if options.only in measurement.name]
        if not measured:
            names = ", ".join(measurement.name for measurement in every)
            raise SystemExit(f"--only {options.only}: the measurements are {names}")
        await measure(measured, options.pairs)
    results: list[Result] = [result for measurement in measured for result in measurement.results()]
    setting = {
        "machine": f"{os.cpu_count()} cores, {platform.machine()}, {platform.system()}",
        "flags": shlex.join(serve_flags(options)),
    }
    return Report(setting, results, shadow, asker.hit_rate)


def read_shadow(client: httpx.Client, url: str) -> Shadow:
    """The bytes that Ropeway says its key shadow and its KV cache take."""
    pools = {pool["name"]: pool["bytes_total"] for pool in client.get(f"{url}/v1/cache").json()["pools"]}
    return Shadow(pools["shadow"], pools["kv"])


def main(arguments: Sequence[str]) -> int:
    """Start both servers, measure, print; 0 if every promise holds."""
    options = Options.parse(arguments)
    # Otherwise the servers would outlive a benchmark that is told to end.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))
    model = options.model or str(default_model.fetch())
    flags = [model, *serve_flags(options)]
    console = Console()
    how = "eager" if options.eager else "compiled"
    with ExitStack() as servers:
        console.print(f"starting stock vLLM, {how}")
        stock = servers.enter_context(running_server(flags, stock=True, ready_within=READY_SECONDS))
        console.print(f"starting Ropeway, {how}")
        ropeway = servers.enter_context(running_server(flags, ready_within=READY_SECONDS))
        report = asyncio.run(run(options, stock, ropeway))
    report.print(console)
    if options.out is not None:
        options.out.write_text(json.dumps(report.to_json(), indent=2) + "\n", encoding="utf-8")
    return 0 if report.holds else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
