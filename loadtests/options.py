"""The command line of the benchmark."""

import argparse
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from loadtests import arguments as values
from loadtests.measurements import KINDS, Sizes
from loadtests.workload import MODEL
from server.compiler import can_compile

QGPM_LENGTHS = (1000, 2000, 4000, 8000)


@dataclass(frozen=True, slots=True)
class Options:
    """How to measure; `out` is where the JSON goes, `only` a part of a measurement's name."""

    model: str | None
    rounds: int
    sizes: Sizes
    eager: bool
    flags: tuple[str, ...]
    only: str
    out: Path | None

    @staticmethod
    def parse(arguments: Sequence[str]) -> "Options":
        """Read a command line."""
        args = _parser().parse_args(arguments)
        quick: bool = args.quick
        return Options(
            model=args.model,
            rounds=args.rounds or (1 if quick else 4),
            sizes=Sizes(
                plain=args.tokens or (300 if quick else 1000),
                qgpm=args.lengths or ((600,) if quick else QGPM_LENGTHS),
                max_tokens=8 if quick else 32,
                pairs=args.pairs or (2 if quick else 3),
            ),
            eager=not can_compile()[0] if args.eager is None else args.eager,
            flags=args.serve_flags,
            only=args.only,
            out=args.out,
        )

    def serve_flags(self) -> list[str]:
        """The flags of both servers; vLLM binds each one's worker to the same cores."""
        flags = ["--dtype", "bfloat16", "--served-model-name", MODEL, "--enable-prompt-tokens-details"]
        flags += ["--kv-cache-memory-bytes", "1G", "--gpu-memory-utilization", "0.3"]
        return [*flags, *(["--enforce-eager"] if self.eager else []), *self.flags]


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m loadtests.bench",
        description="Measure Ropeway against stock vLLM over HTTP streaming. In each round both servers are "
        "started anew, in alternating order, with the same model and flags; then one of them is asked at a "
        "time, in pairs whose order alternates. Interrupted, it prints what it has. The status is 0 if every "
        "promise holds.",
    )
    parser.add_argument("--model", help="a model folder or hub name (default: the default model)")
    parser.add_argument("--rounds", type=values.count, help="starts of both servers (default: 4; quick: 1)")
    parser.add_argument(
        "--pairs", type=values.count, help="pairs of each measurement in a round (default: 3; quick: 2)"
    )
    parser.add_argument(
        "--tokens", type=values.count, help="prompt tokens of plain requests (default: 1000; quick: 300)"
    )
    parser.add_argument(
        "--lengths",
        type=_lengths,
        metavar="N,N",
        help="prompt tokens of QGPM requests; beyond the window: what fits "
        f"(default: {','.join(map(str, QGPM_LENGTHS))}; quick: 600)",
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
    parser.add_argument(
        "--serve-flags", type=values.flags, default="", metavar="FLAGS", help="more flags, for both servers"
    )
    parser.add_argument(
        "--only",
        type=_only,
        default="",
        metavar="TEXT",
        help="only measurements whose name holds it (qgpm, reuse …)",
    )
    parser.add_argument("--out", type=Path, metavar="FILE", help="write everything as JSON, round by round")
    return parser


def _lengths(text: str) -> tuple[int, ...]:
    return tuple(sorted({values.count(part) for part in text.split(",")}))


def _only(text: str) -> str:
    if not any(text.partition(" ")[0] in kind for kind in KINDS):
        raise argparse.ArgumentTypeError(f"{text!r} is in none of {', '.join(KINDS)}")
    return text
