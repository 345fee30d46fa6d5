"""What `python -m loadtests.load` does: load on any OpenAI-compatible server, and how it answers."""

import asyncio
import os
import signal
import sys
from collections.abc import Sequence

import httpx
from rich.console import Console

from cache.whole_file import check_writable
from loadtests.entry import INTERRUPTED
from loadtests.load.options import Options
from loadtests.load.report import Report
from loadtests.load.scenarios import Scenario
from loadtests.load.session import Session
from loadtests.load.target import TargetError, find


async def measure(session: Session, scenarios: Sequence[Scenario], report: Report) -> None:
    """Fill the report, also when interrupted. Raises OSError where it cannot be kept."""
    _stop_at_signals(session.stopping)
    await session.measure(scenarios, report)


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
    failed = False
    try:
        if options.out is not None:
            options.out.parent.mkdir(parents=True, exist_ok=True)
            check_writable(options.out)
        with httpx.Client(timeout=600, headers=headers) as client:
            target = find(client, options.url, options.model)
            session = Session(options, target, client, console, asyncio.Event())
            report = Report(session.setting())
            scenarios = session.understood(report)
            try:
                asyncio.run(measure(session, scenarios, report))
            except OSError as error:
                print(f"loadtests.load: {error}", file=sys.stderr)
                failed = True
    except (TargetError, OSError) as error:
        print(f"loadtests.load: {error}", file=sys.stderr)
        return 1
    report.print(console)
    if failed:
        return 1
    if report.interrupted:
        return INTERRUPTED
    return 0 if any(line["requests"] for line in report.scenarios) else 1
