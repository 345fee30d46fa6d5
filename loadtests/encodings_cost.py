"""`python -m loadtests.encodings_cost`: what a turn costs a token, by the width of a head."""

import argparse
import math
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
from positional.encodings.rank_two import RankTwo
from positional.encodings.subspaces import Subspaces
from positional.phases import rotate, rotation_rows
from positional.profile import Profile

Turn = Callable[[torch.Tensor], torch.Tensor]


@dataclass(frozen=True, slots=True)
class Method:
    """A way to turn vectors, `made` for a width and positions; beyond `widest` it would take too long."""

    name: str
    made: Callable[[int, torch.Tensor], Turn]
    widest: float = math.inf

    def seconds(self, width: int, tokens: int, least_seconds: float) -> float:
        """Processor seconds per token on one thread, in the fastest block of runs."""
        turn, vectors = self.made(width, torch.arange(tokens)), torch.randn(tokens, width)
        given = {"turn": turn, "vectors": vectors}
        timer = Timer("turn(vectors)", globals=given, num_threads=1, timer=time.process_time)
        return float(min(timer.blocked_autorange(min_run_time=least_seconds).times)) / tokens


def _rope(width: int, positions: torch.Tensor) -> Turn:
    """With the rows of the positions made before: all heads and layers share them."""
    profile = Profile.rope(10_000.0, width)
    rows = rotation_rows(positions[:, None].expand(-1, profile.planes), profile, torch.float32)
    return lambda vectors: rotate(vectors, rows, profile.pairing)


def _rank_two(width: int) -> RankTwo:
    a, b = torch.randn(2, width, dtype=torch.float64)
    return RankTwo(a / a.norm(), b / b.norm())


def _closed(width: int, positions: torch.Tensor) -> Turn:
    grape = _rank_two(width)
    return lambda vectors: grape.rotate(vectors, positions)


def _dense(width: int, positions: torch.Tensor) -> Turn:
    """exp(nL) as a matrix for each token: what the closed form saves."""
    grape = _rank_two(width)
    generator = torch.outer(grape.a, grape.b) - torch.outer(grape.b, grape.a)

    def turn(vectors: torch.Tensor) -> torch.Tensor:
        matrices = torch.linalg.matrix_exp(positions[:, None, None] * generator).to(vectors.dtype)
        return torch.einsum("tij,tj->ti", matrices, vectors)

    return turn


def _in_basis(width: int, positions: torch.Tensor) -> Turn:
    angles = torch.rand(width // 2, dtype=torch.float64)
    grape = Subspaces.nearest(torch.randn(width, width), angles)
    return lambda vectors: grape.rotate(vectors, positions)


METHODS = (
    Method("RoPE, and folded planes", _rope),
    Method("rank two, closed form", _closed),
    Method("planes in their own basis", _in_basis, widest=1024),
    Method("rank two, dense exponential", _dense, widest=256),
)


def growth(widths: Sequence[int], seconds: Sequence[float | None]) -> float | None:
    """The power of the width by which a cost grows between its two largest widths; None for one width."""
    known = [(width, cost) for width, cost in zip(widths, seconds, strict=True) if cost is not None][-2:]
    if len(known) < 2:
        return None
    (narrow, little), (wide, much) = known
    return math.log(much / little) / math.log(wide / narrow)


def table(widths: Sequence[int], tokens: int, least_seconds: float, rounds: int) -> CostTable:
    """Measure every method at every width; the last column is the power of the width by which it grows."""
    cells = [(method, width) for method in METHODS for width in widths if width <= method.widest]
    found = dict.fromkeys(cells, math.inf)
    # In rounds over all cells: a busy moment then costs no cell all of its runs.
    for cell in tqdm(cells * rounds):
        method, width = cell
        found[cell] = min(found[cell], method.seconds(width, tokens, least_seconds))
    rows = []
    for method in METHODS:
        seconds = [found.get((method, width)) for width in widths]
        power = growth(widths, seconds)
        texts = ["–" if cost is None else f"{cost * 1e6:,.1f}" for cost in seconds]
        rows.append((method.name, *texts, "–" if power is None else f"{power:.2f}"))
    title = f"Processor time in µs per token, {tokens} tokens of one head at once ({machine()}, one thread)"
    return CostTable(title, ("width", *map(str, widths), "power"), tuple(rows))


def main(arguments: Sequence[str] | None = None) -> None:
    """Print the table; small widths show what a call costs, large ones how the cost grows."""
    parser = argparse.ArgumentParser(prog="python -m loadtests.encodings_cost", description=__doc__)
    widths = [64, 128, 256, 1024, 4096, 16_384, 65_536]
    parser.add_argument("--widths", type=int, nargs="+", default=widths, help="even, ascending")
    parser.add_argument("--tokens", type=int, default=16)
    parser.add_argument("--seconds", type=float, default=0.1, help="least time for each cell and round")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--out", type=Path, metavar="FILE", help="keep the table there, too")
    options = parser.parse_args(arguments)
    if options.out is not None:
        check_writable(options.out)
    torch.manual_seed(0)
    table(options.widths, options.tokens, options.seconds, options.rounds).tell(options.out)


if __name__ == "__main__":
    main()
