"""`python -m loadtests.drills.report`: docs/reliability.md, from what the drills left."""

import argparse
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from loadtests.drills.file import REPORTED, File
from loadtests.drills.registry import DRILLS, SOAK
from loadtests.results import markdown

OUT = Path("docs/reliability.md")
_MIB = 2**20
_NOTE = (
    "Written by `make drills` and `make soak` from `docs/results/drills.json`; not by hand. The same file "
    "gives the same report. Each drill starts servers of its own, breaks something on purpose under load, "
    "and looks at what survives. Prompts are of every kind (plain, chat, two passes, evidence, rules of "
    "their own, streams); the right answers are those that the same requests got alone before. An answer "
    "is *wrong* where a log-probability is off by more than the noise of float32, or a token differs that "
    "was not nearly tied. A request *reached the engine* where the server has a record of it; clients "
    "that leave early may do so before. OpenAPI and prompts were fuzzed apart: [fuzzing.md](fuzzing.md)."
)
_NEVER = (
    "a GPU, several nodes, Ray: none was at hand",
    "a kernel that is out of memory (`kill -9` stands for it), a disk that corrupts what was written",
    "a network that loses packets between clients and server: all ran on one machine's loopback",
    "longer soaks than the one above",
)


def report(file: File) -> str:
    """The report as Markdown; a drill that never ran is named."""
    soak = file.drills.get(SOAK)
    quick = {name: file.drills[name] for name in DRILLS if name in file.drills and name != SOAK}
    parts = [
        "# What Ropeway survives",
        _NOTE,
        _overview(file),
        *(_drill(name, entry) for name, entry in quick.items()),
        *([] if soak is None else [_soak(soak)]),
        _not_run(file),
        _again(),
    ]
    return "\n\n".join(parts) + "\n"


def _overview(file: File) -> str:
    rows = [
        (f"`{name}`", entry["what"], _verdict(entry), str(_requests(entry)), f"{entry['seconds']} s")
        for name, drill in DRILLS.items()
        if (entry := file.drills.get(name)) is not None and drill
    ]
    table = markdown.table(("drill", "what is done", "checks that held", "requests", "took"), rows)
    ran_on = {
        (entry["model"], entry["machine"], markdown.value(entry["versions"]))
        for entry in file.drills.values()
    }
    lines = markdown.bullets(f"{model}; {machine}; {versions}" for model, machine, versions in sorted(ran_on))
    return (
        f"{table}\n\nServed, on what, and with which versions:\n\n{lines}"
        if rows
        else "**Nothing was run yet.**"
    )


def _verdict(entry: Mapping[str, Any]) -> str:
    if entry["not_run"] is not None:
        return "not run"
    checks = entry["checks"]
    held = sum(check["held"] for check in checks)
    return f"{held} of {len(checks)}" if held == len(checks) else f"**{held} of {len(checks)}**"


def _requests(entry: Mapping[str, Any]) -> Any:
    return entry["figures"].get("requests", "–")


def _drill(name: str, entry: Mapping[str, Any]) -> str:
    title = f"## `{name}`: {entry['what']}"
    if entry["not_run"] is not None:
        return f"{title}\n\n**Not run**: {entry['not_run']}."
    return "\n\n".join((title, _checks(entry), *_figures(entry["figures"])))


def _checks(entry: Mapping[str, Any]) -> str:
    rows = [
        (check["name"], "held" if check["held"] else "**did not hold**", " ".join(check["seen"].split()))
        for check in entry["checks"]
    ]
    return markdown.table(("must hold", "", "seen"), rows)


def _figures(figures: Mapping[str, Any]) -> Iterator[str]:
    shown = {name: value for name, value in figures.items() if name not in ("memory", "slope")}
    if shown:
        yield markdown.bullets(f"{name}: {markdown.value(value)}" for name, value in shown.items())


def _soak(entry: Mapping[str, Any]) -> str:
    return "\n\n".join((_drill(SOAK, entry), *_memory(entry["figures"])))


def _memory(figures: Mapping[str, Any]) -> Iterator[str]:
    """The slope, and the series that it is of, minute by minute."""
    if (slope := figures.get("slope")) is not None:
        yield (
            "Memory of all its processes that no file backs, shared pages counted once: "
            f"{slope['per_hour'] / _MIB:+.2f} MiB an hour, 95 % interval {slope['low'] / _MIB:+.2f} to "
            f"{slope['high'] / _MIB:+.2f}, at {slope['mean'] / _MIB:.0f} MiB; of {slope['samples']} samples "
            f"over {60 * slope['hours']:.0f} minutes, behind a warm-up in which bounded stores fill up: "
            "records, the memo (small here), and the kernels that oneDNN compiles for a CPU (64 here; by "
            "default, as under vLLM alone, it keeps 1,024 and fills up for hours). The interval is that of "
            "the means of ten equal parts."
        )
    if (memory := figures.get("memory")) is not None and memory["seconds"]:
        yield markdown.table(("minute", "MiB", *memory["processes"]), _by_minute(memory))


def _by_minute(memory: Mapping[str, Any]) -> Iterator[tuple[str, ...]]:
    """Every third minute's first sample, of all processes and of each."""
    last = -1
    columns = (memory["bytes"], *memory["processes"].values())
    for second, *sizes in zip(memory["seconds"], *columns, strict=True):
        if (minute := int(second // 60)) > last and minute % 3 == 0:
            last = minute
            yield str(minute), *(f"{size / _MIB:.1f}" for size in sizes)


def _not_run(file: File) -> str:
    missing = [f"`{name}`: {drill.what}" for name, drill in DRILLS.items() if name not in file.drills]
    refused = [
        f"`{name}`: {entry['not_run']}" for name, entry in file.drills.items() if entry["not_run"] is not None
    ]
    return f"## What was not run\n\n{markdown.bullets((*missing, *refused, *_NEVER))}"


def _again() -> str:
    rows = (
        ("all drills but the soak", "`make drills`"),
        ("one of them", "`make drills ARGS='--only clock'`"),
        ("the soak", "`make soak` (30 minutes; `ARGS='--minutes 5'`)"),
        ("of another model", "`ARGS='--model /path/to/model'`"),
        ("this report", "`.venv/bin/python -m loadtests.drills.report`"),
    )
    return "## How to do it again\n\n" + markdown.table(("what", "command"), rows)


def main(arguments: Sequence[str]) -> int:
    """Write the report, or with `--check` compare; 1 where it is not up to date."""
    parser = argparse.ArgumentParser(prog="python -m loadtests.drills.report", description=__doc__)
    parser.add_argument("--file", type=Path, default=REPORTED, help=f"default: {REPORTED}")
    parser.add_argument("--out", type=Path, default=OUT, help=f"default: {OUT}")
    parser.add_argument(
        "--check", action="store_true", help="write nothing; the status is 1 if it is out of date"
    )
    options = parser.parse_args(arguments)
    text = report(File.read(options.file))
    if not options.check:
        options.out.write_text(text, encoding="utf-8")
    elif not options.out.exists() or options.out.read_text(encoding="utf-8") != text:
        print(f"{options.out} is out of date: python -m loadtests.drills.report", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
