"""`python -m loadtests.path_cost`: what a path-integral bias costs a head beside its attention, by length."""

import argparse
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import torch
from torch.utils.benchmark import Timer
from tqdm import tqdm

from cache.whole_file import check_writable
from loadtests.cost_table import CostTable
from loadtests.machine import machine
from positional.encodings.path_integral import path_sums, turn

Run = Callable[[], torch.Tensor]

WIDTH = 64
"""Numbers of a head's queries, keys and values."""
PROBE_WIDTH = 8
"""Numbers of a probe in the larger models of the authors' code."""


@dataclass(frozen=True, slots=True)
class Work:
    """What the last `queries` of `length` tokens cost one head, as `made` draws the numbers for it."""

    name: str
    made: Callable[[int, int], Run]

    def seconds(self, length: int, queries: int, least_seconds: float) -> float:
        """Processor seconds on one thread, in the fastest block of runs."""
        given = {"run": self.made(length, queries)}
        timer = Timer("run()", globals=given, num_threads=1, timer=time.process_time)
        return float(min(timer.blocked_autorange(min_run_time=least_seconds).times))


def _attention(length: int, queries: int) -> Run:
    query, key, value = (torch.randn(1, count, WIDTH) for count in (queries, length, length))
    seen = torch.ones(queries, length, dtype=torch.bool).tril(length - queries)
    return lambda: torch.nn.functional.scaled_dot_product_attention(query, key, value, attn_mask=seen)


def _kept_probes(length: int, queries: int) -> Run:
    probes = torch.randn(length, PROBE_WIDTH)
    turned = turn(probes, torch.arange(length))
    return lambda: path_sums(probes[length - queries :], turned, 0.5)


def _turned_anew(length: int, queries: int) -> Run:
    probes, places = torch.randn(length, PROBE_WIDTH), torch.arange(length)
    return lambda: path_sums(probes[length - queries :], turn(probes, places), 0.5)


WORKS = (
    Work("attention", _attention),
    Work("path sums, probes kept turned", _kept_probes),
    Work("path sums, probes turned anew", _turned_anew),
)


def table(lengths: Sequence[int], queries: Sequence[int], least_seconds: float, rounds: int) -> CostTable:
    """Measure every work for so many `queries` at once over every length; the fastest round counts."""
    cells = [(work, count, length) for count in queries for work in WORKS for length in lengths]
    found: dict[tuple[Work, int, int], float] = {}
    for cell in tqdm(cells * rounds):
        work, count, length = cell
        found[cell] = min(found.get(cell, float("inf")), work.seconds(length, count, least_seconds))
    rows = [
        (work.name, f"{count:,}", *(f"{found[work, count, length] * 1e3:,.2f}" for length in lengths))
        for count in queries
        for work in WORKS
    ]
    head = ("work", "queries", *(f"{length:,} tokens" for length in lengths))
    return CostTable(
        f"Processor time in ms of one head of one layer ({machine()}, one thread)", head, tuple(rows)
    )


def main(arguments: Sequence[str] | None = None) -> None:
    """Print the table: one query is a step of decoding, many are a chunk of a prompt."""
    parser = argparse.ArgumentParser(prog="python -m loadtests.path_cost", description=__doc__)
    parser.add_argument("--lengths", type=int, nargs="+", default=[1024, 4096, 16_384, 32_768])
    parser.add_argument("--queries", type=int, nargs="+", default=[1, 512], help="at most the least length")
    parser.add_argument("--seconds", type=float, default=0.2, help="least time for each cell and round")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--out", type=Path, metavar="FILE", help="keep the table there, too")
    options = parser.parse_args(arguments)
    if options.out is not None:
        check_writable(options.out)
    torch.manual_seed(0)
    table(options.lengths, options.queries, options.seconds, options.rounds).tell(options.out)


if __name__ == "__main__":
    main()
