"""The section on speed: Ropeway beside stock vLLM."""

from collections.abc import Iterator, Sequence
from statistics import median

from loadtests.results import markdown
from loadtests.results.bench_file import Bench, Line
from loadtests.results.drawing import INK, Plot, drawn, look, plot
from loadtests.results.files import BENCH
from loadtests.results.quantities import seconds, share, size
from loadtests.results.section import Section, missing, pictures

TITLE = "What does it cost?"
COMMAND = f'make bench ARGS="--out docs/results/{BENCH}"'


def section(bench: Bench | None) -> Section:
    """Everything that a bench says."""
    if bench is None:
        return missing(TITLE, BENCH, COMMAND)
    plots = (_ratios(bench.lines),) if bench.lines else ()
    paragraphs = (
        markdown.setting(bench.setting),
        _verdict(bench),
        _lines(bench),
        pictures(plots),
        *_stages(bench),
        *_servers(bench),
        f"Prompt tokens that hit the prefix cache where nothing should: {share(bench.prefix_hit_rate)}.",
    )
    return Section(TITLE, tuple(paragraph for paragraph in paragraphs if paragraph), plots)


def _verdict(bench: Bench) -> str:
    broken = [line.name for line in bench.lines if line.verdict != "holds"]
    if bench.shadow is not None and bench.shadow.verdict != "holds":
        broken.append("key shadow / KV memory")
    if broken:
        return f"**Promises that do not hold:** {'; '.join(broken)}."
    return f"All {len(bench.lines)} promises hold." if bench.lines else "**Nothing was measured yet.**"


def _lines(bench: Bench) -> str:
    rows = []
    for line in bench.lines:
        baselines, measured = zip(*line.pairs, strict=True)
        times = (seconds(median(baselines)), seconds(median(measured)))
        rounds = f"{min(line.rounds):.3f} to {max(line.rounds):.3f}"
        ratio = (f"{line.median:.3f}", f"{line.low:.3f} to {line.high:.3f}", rounds, str(line.count))
        rows.append((line.name, *times, *ratio, line.promise, line.verdict))
    columns = ("baseline", "measured", "ratio", "95 %", "rounds", "n", "promise", "verdict")
    return "\n\n".join(
        (
            markdown.table(("measured / baseline", *columns), rows),
            "Ratios are of times (less is better), medians over pairs of neighbouring requests; rounds: the "
            f"least and the greatest median of the {len(bench.rounds)} rounds, each of which started both "
            "servers anew.",
        )
    )


def _ratios(lines: Sequence[Line]) -> Plot:
    """Every ratio with its interval, on a logarithmic axis, 1 marked."""
    title = "Times beside their baselines"
    with drawn(7.5, 0.34 * len(lines) + 1.0) as (figure, axes):
        axis, shown = axes[0], look("qgpm")
        axis.axvline(1, color=INK, linewidth=0.8)
        for place, line in enumerate(lines):
            axis.plot([line.low, line.high], [place, place], color=shown.colour)
            axis.plot([line.median], [place], marker=shown.marker, color=shown.colour)
        axis.set_xscale("log", base=2)
        axis.xaxis.set_major_formatter(lambda value, _: f"{value:g}")
        axis.minorticks_off()
        axis.set_yticks(range(len(lines)), [line.name for line in lines])
        axis.set_ylim(len(lines) - 0.5, -0.5)
        axis.set_xlabel("measured / baseline (1: equally fast, 2: twice the time)")
        worded = "; ".join(f"{line.name} {line.median:.2f}" for line in lines)
        return plot(figure, "ratios", title, f"{title}, as ratios: {worded}.")


def _stages(bench: Bench) -> Iterator[str]:
    if not bench.stages:
        return
    names = list(dict.fromkeys(stage.stage for stage in bench.stages))
    rows = []
    for tokens in dict.fromkeys(stage.tokens for stage in bench.stages):
        of_length = {stage.stage: stage for stage in bench.stages if stage.tokens == tokens}
        count = str(next(iter(of_length.values())).count)
        cells = [f"{seconds(of_length[name].seconds)} ({share(of_length[name].share)})" for name in names]
        rows.append((f"{tokens:,}", count, *cells))
    yield "### Where the time to the first token of a QGPM request goes"
    yield markdown.table(("tokens", "n", *names), rows)


def _servers(bench: Bench) -> Iterator[str]:
    yield "### Start and memory"
    rows = []
    for side, started in bench.start_seconds.items():
        resident = bench.memory.resident_bytes.get(side, ())
        spread = f"{min(started):.1f} to {max(started):.1f} s" if started else ""
        held = size(median(resident)) if resident else ""
        rows.append((side, seconds(median(started)) if started else "", spread, str(len(started)), held))
    yield markdown.table(("server", "starts in", "least to greatest", "n", "memory once ready"), rows)
    yield "Start-up time and memory are medians over the rounds."
    shares = []
    if (shadow := bench.shadow) is not None:
        sizes = (size(shadow.shadow_bytes), size(shadow.cache_bytes), share(shadow.share))
        shares.append(("key shadow, beside the whole KV cache", *sizes))
    for one in bench.memory.coordinates:
        name = f"coordinates of a request of {one.tokens:,} tokens, beside its KV cache"
        sizes = (size(one.held_bytes), size(one.cache_bytes), share(one.held_bytes / one.cache_bytes))
        shares.append((name, *sizes))
    if shares:
        yield markdown.table(("Ropeway's own", "takes", "beside", "share"), shares)
