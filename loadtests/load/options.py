"""The command line."""

import argparse
import re
import secrets
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from loadtests import arguments as values
from loadtests.load.arrival import Arrival, ArrivalError
from loadtests.load.observation import Objective
from loadtests.load.scenarios import SCENARIOS

REPORTED = Path("docs/results/load.json")
_ARRIVALS = ("concurrency=4", "constant=auto", "poisson=auto")


@dataclass(frozen=True, slots=True)
class Options:
    """What to measure and how; `minutes` are shared by all that is measured, `out` is where the JSON goes."""

    url: str
    model: str | None
    scenarios: tuple[str, ...]
    arrivals: tuple[Arrival, ...]
    minutes: float
    requests: int | None
    warm_up: int
    tokens: int
    max_tokens: int
    objective: Objective
    nonce: str
    out: Path | None

    @staticmethod
    def parse(arguments: Sequence[str]) -> "Options":
        """Read a command line."""
        parser = _parser()
        args = parser.parse_args(arguments)
        arrivals = tuple(args.arrival or map(Arrival.parse, _ARRIVALS))
        if arrivals[0].value is None:
            parser.error(f"--arrival {arrivals[0].kind}=auto needs a --arrival concurrency=… before it")
        return Options(
            url=args.url,
            model=args.model,
            scenarios=tuple(args.scenario or (scenario.name for scenario in SCENARIOS)),
            arrivals=arrivals,
            minutes=args.minutes,
            requests=args.requests,
            warm_up=args.warm_up,
            tokens=args.tokens,
            max_tokens=args.max_tokens,
            objective=Objective(args.ttft_slo, args.tpot_slo),
            nonce=args.nonce or secrets.token_hex(4),
            out=args.out,
        )


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m loadtests.load",
        description="Put load on an OpenAI-compatible server and measure how it answers. Scenarios that need "
        "fields which the server does not know are left out, with the reason. OPENAI_API_KEY is sent if set.",
    )
    parser.add_argument("--url", required=True, type=_url, help="the server, e.g. http://127.0.0.1:8000")
    parser.add_argument("--model", help="one of the served models (default: the first)")
    parser.add_argument(
        "--scenario",
        action="append",
        choices=[scenario.name for scenario in SCENARIOS],
        help="only this one; may be repeated (default: all)",
    )
    parser.add_argument(
        "--arrival",
        action="append",
        type=_arrival,
        metavar="KIND=VALUE",
        help="concurrency=N, constant=RATE or poisson=RATE in requests a second; RATE auto: 70%% of what "
        f"concurrency reached; may be repeated (default: {', '.join(_ARRIVALS)})",
    )
    parser.add_argument("--minutes", type=values.amount, default=20.0, help="time for all (default: 20)")
    parser.add_argument(
        "--requests", type=values.count, help="requests of each measurement, however long they take"
    )
    parser.add_argument(
        "--warm-up",
        type=values.count,
        default=4,
        metavar="N",
        help="requests before each measurement that do not count (default: 4, at least those at a time)",
    )
    parser.add_argument("--tokens", type=values.count, default=1000, help="prompt tokens (default: 1000)")
    parser.add_argument("--max-tokens", type=values.count, default=32, help="output tokens (default: 32)")
    parser.add_argument(
        "--ttft-slo",
        type=values.amount,
        default=2.0,
        metavar="SECONDS",
        help="goodput counts answers whose first token came within this (default: 2)",
    )
    parser.add_argument(
        "--tpot-slo",
        type=values.amount,
        default=0.1,
        metavar="SECONDS",
        help="and whose further tokens took at most this each, on average (default: 0.1)",
    )
    parser.add_argument("--nonce", help="repeat the prompts of another run (default: new prompts)")
    parser.add_argument(
        "--out",
        type=Path,
        nargs="?",
        const=REPORTED,
        metavar="FILE",
        help=f"write everything as JSON (without FILE: {REPORTED})",
    )
    return parser


def _url(text: str) -> str:
    if not re.match(r"https?://[^/]", text):
        raise argparse.ArgumentTypeError(f"{text!r} does not begin with http:// or https://")
    return text


def _arrival(text: str) -> Arrival:
    try:
        return Arrival.parse(text)
    except ArrivalError as error:
        raise argparse.ArgumentTypeError(str(error)) from error
