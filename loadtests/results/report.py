"""The report, put together: every file that it consists of, as text."""

from collections.abc import Iterator, Mapping

from loadtests.results import bench_section, load_section, markdown, tuning_section
from loadtests.results.file_format import Setting
from loadtests.results.files import BENCH, CHANCE, LOAD, QUALITY, Files
from loadtests.results.quality import guarded
from loadtests.results.quality import section as quality_section
from loadtests.results.section import FOLDER, Section

NAME = "results.md"
NOTE = (
    "Written by `make results` from the files in `docs/results/`; not by hand. The same files give the same "
    "report. What each number means is said in [measuring.md](measuring.md)."
)


def report(files: Files) -> Mapping[str, str]:
    """Text by path from the folder of the report: the report itself first, then its plots."""
    sections = (
        quality_section.section(files.quality),
        guarded.chance(files.chance),
        tuning_section.section(files.profile, files.quality),
        bench_section.section(files.bench),
        load_section.section(files.load),
    )
    text = "\n\n".join(("# Results", NOTE, _ran_on(files), *(part.text for part in sections), _again().text))
    plots = {f"{FOLDER}/{plot.name}": plot.svg for part in sections for plot in part.plots}
    return {NAME: text + "\n", **plots}


def _ran_on(files: Files) -> str:
    """Machines, versions and seeds of each file, and that no GPU was there."""
    settings = dict(_settings(files))
    if not settings:
        return "**Nothing was measured yet.**"
    rows = [
        (name, *(markdown.value(setting.get(key, "not told")) for key in ("machine", "versions", "seed")))
        for name, setting in settings.items()
    ]
    table = markdown.table(("file", "machine", "versions", "seed"), rows)
    machines = [str(setting.get("machine", "")) for setting in settings.values()]
    gpus = [name for name, machine in zip(settings, machines, strict=True) if _has_gpu(machine)]
    said = "**Nothing here was run on a GPU.** The same commands run on one (`make install EXTRA=cuda`)."
    if gpus:
        said = f"On a GPU: {', '.join(gpus)}."
    return f"{table}\n\n{said}"


def _settings(files: Files) -> Iterator[tuple[str, Setting]]:
    if files.quality is not None:
        yield QUALITY, files.quality.setting
    if files.chance is not None:
        yield CHANCE, files.chance.setting
    if files.bench is not None:
        yield BENCH, files.bench.setting
    if files.load is not None:
        yield LOAD, files.load.setting


def _has_gpu(machine: str) -> bool:
    """Whether a machine's description begins with GPUs, as `loadtests.machine` writes it."""
    return machine[:1].isdigit() and "cores" not in machine.split(",")[0]


def _again() -> Section:
    rows = (
        ("answers", f"`{quality_section.COMMAND}`", QUALITY),
        ("answers where chance ranks", f"`{guarded.COMMAND}`", CHANCE),
        ("settings", "`.venv/bin/ropeway tune MODEL --out FILE`", "the head profile"),
        ("cost", f"`{bench_section.COMMAND}`", BENCH),
        ("load, on a server that `make serve` started", f"`{load_section.COMMAND}`", LOAD),
        ("this report", "`make results`", NAME),
    )
    return Section("How to do it again", (markdown.table(("what", "command", "writes"), rows),))
