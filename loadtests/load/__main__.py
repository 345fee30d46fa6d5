"""`python -m loadtests.load --url URL`: load on any OpenAI-compatible server, and how it answers."""

import asyncio
import os
import signal
import sys
from collections.abc import Sequence

import httpx
from rich.console import Console

from loadtests.load.options import Options
from loadtests.load.report import Report
from loadtests.load.session import Session
from loadtests.load.target import TargetError, find


async def measure(options: Options, client: httpx.Client, console: Console) -> Report:
    """Find the server, measure, and return what was found, also when interrupted. Raises TargetError."""
    stopping = asyncio.Event()
    _stop_at_signals(stopping)
    session = Session(options, find(client, options.url, options.model), client, console, stopping)
    report = Report(session.setting())
    await session.measure(report)
    return report


def _stop_at_signals(stopping: asyncio.Event) -> None:
    """The first signal ends the measurement in order; a second one ends the process."""
    loop = asyncio.get_running_loop()
    numbers = (signal.SIGINT, signal.SIGTERM)

    def stop() -> None:
        stopping.set()
        for number in numbers:
            loop.remove_signal_handler(number)

    for number in numbers:
        loop.add_signal_handler(number, stop)


def main(arguments: Sequence[str]) -> int:
    """Measure and print; 0 unless there was nothing to measure, or it was interrupted (130)."""
    options = Options.parse(arguments)
    console = Console()
    key = os.environ.get("OPENAI_API_KEY")
    headers = {"Authorization": f"Bearer {key}"} if key else {}
    try:
        with httpx.Client(timeout=600, headers=headers) as client:
            report = asyncio.run(measure(options, client, console))
    except TargetError as error:
        print(f"loadtests.load: {error}", file=sys.stderr)
        return 1
    report.print(console)
    if report.interrupted:
        return 128 + signal.SIGINT
    return 0 if any(line["requests"] for line in report.scenarios) else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
