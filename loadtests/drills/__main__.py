"""`python -m loadtests.drills`: break servers on purpose, and see what survives."""

import signal
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from rich.console import Console
from rich.markup import escape
from rich.table import Table
from tqdm import tqdm

from loadtests.drills.check import Drill, Findings, NotRunError, Say
from loadtests.drills.file import File
from loadtests.drills.options import Options
from loadtests.drills.registry import DRILLS
from loadtests.drills.subject import Subject
from loadtests.machine import machine, versions
from server.interruption import interruptible

INTERRUPTED = 128 + signal.SIGINT
_WIDTH = 150


def main(arguments: Sequence[str]) -> int:
    """Run the drills; 0 if everything held, 1 if something did not, 130 where a signal ended them."""
    options = Options.parse(arguments)
    entries: dict[str, dict[str, Any]] = {}
    status = 0
    with TemporaryDirectory() as folder, tqdm(total=len(options.names), unit="drill") as bar:
        file = None if options.out is None else File.read(options.out)
        try:
            with interruptible():
                subject = Subject.tiny(Path(folder)) if options.model is None else Subject.of(options.model)
                for name in options.names:
                    entries[name] = _entry(DRILLS[name], subject, options, _sayer(bar, name))
                    bar.update()
                    if file is not None:
                        file.note(name, entries[name])
        except KeyboardInterrupt:
            status = INTERRUPTED
    _print(entries)
    if status:
        print("Interrupted: these are the drills that were finished.")
    return status or int(not all(map(_held, entries.values())))


def _entry(drill: Drill, subject: Subject, options: Options, say: Say) -> dict[str, Any]:
    """A drill's entry in the file; an error of the drill's own is a check that did not hold."""
    started, not_run = time.monotonic(), None
    say("starts")
    try:
        findings = drill.run(subject, options.sizes, say)
    except NotRunError as error:
        findings, not_run = Findings(), str(error)
    except Exception as error:  # the drills behind it are worth running
        findings = Findings()
        findings.check("the drill came to its end", False, f"{type(error).__name__}: {str(error)[-600:]}")
    return {
        "what": drill.what,
        "model": subject.name,
        "machine": machine(),
        "versions": versions(),
        "seconds": round(time.monotonic() - started),
        "not_run": not_run,
        **findings.to_json(),
    }


def _sayer(bar: "tqdm[Any]", name: str) -> Say:
    return lambda what: bar.set_description(f"{name}: {what}")


def _held(entry: dict[str, Any]) -> bool:
    return all(check["held"] for check in entry["checks"])


def _print(entries: dict[str, dict[str, Any]]) -> None:
    table = Table("drill", "what must hold", "", "seen")
    for name, entry in entries.items():
        if entry["not_run"] is not None:
            table.add_row(name, entry["what"], "not run", escape(entry["not_run"]))
        for number, check in enumerate(entry["checks"]):
            held = "held" if check["held"] else "[bold red]did not hold[/]"
            table.add_row("" if number else name, check["name"], held, escape(check["seen"]))
        table.add_section()
    console = Console()
    console.width = max(console.width, _WIDTH)
    console.print(table, markup=True, highlight=False)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
