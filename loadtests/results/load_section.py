"""The section on load: requests that arrive as users' do."""

from collections.abc import Iterator, Sequence

from matplotlib.ticker import LogLocator

from loadtests.results import markdown
from loadtests.results.drawing import INK, Plot, drawn, look, plot
from loadtests.results.files import LOAD
from loadtests.results.load_file import Load, Scenario, Spread
from loadtests.results.quantities import seconds, share, size
from loadtests.results.section import Section, missing, pictures

TITLE = "How does it bear load?"
COMMAND = f'make loadtest URL=http://127.0.0.1:8000 ARGS="--out docs/results/{LOAD}"'
PERCENTILES = (("p50", "o"), ("p90", "s"), ("p99", "^"))


def section(load: Load | None) -> Section:
    """Everything that a load test says."""
    if load is None:
        return missing(TITLE, LOAD, COMMAND)
    plots = (_plot(load.scenarios),) if load.scenarios else ()
    paragraphs = (
        markdown.setting(load.setting),
        _table(load) if load.scenarios else "**Nothing was measured yet.**",
        pictures(plots),
        _parts(load.scenarios),
        *_left_out(load),
    )
    return Section(TITLE, tuple(paragraph for paragraph in paragraphs if paragraph), plots)


def _table(load: Load) -> str:
    head = (
        "scenario",
        "n",
        "errors",
        "TTFT p50",
        "p90",
        "p99",
        "time per token p50",
        "between tokens p99",
        "whole p50",
        "requests/s",
        "tokens/s",
        "goodput/s",
        "share",
        "hits",
        "cache held",
    )
    objective = load.scenarios[0].goodput.objective
    return "\n\n".join(
        (
            markdown.table(head, [_row(scenario) for scenario in load.scenarios]),
            f"Goodput counts answers whose first token came within {objective.ttft_s:g} s and whose others "
            f"took at most {1000 * objective.tpot_s:g} ms each on average; its share is of all requests, "
            "failed ones included. Warm-up requests are in no number.",
        )
    )


def _row(scenario: Scenario) -> tuple[str, ...]:
    ttft, goodput = scenario.ttft, scenario.goodput
    return (
        scenario.label,
        str(scenario.requests),
        str(scenario.failed),
        *(_of(ttft, name) for name, _ in PERCENTILES),
        _of(scenario.tpot, "p50"),
        _of(scenario.itl, "p99"),
        _of(scenario.e2e, "p50"),
        f"{scenario.requests_per_second:.2f}",
        f"{scenario.output_tokens_per_second:.1f}",
        f"{goodput.requests_per_second:.2f}",
        share(goodput.share),
        share(scenario.hit_rate),
        size(sum(pool.held for pool in scenario.cache_bytes.values())) if scenario.cache_bytes else "",
    )


def _parts(scenarios: Sequence[Scenario]) -> str:
    """The kinds of requests within scenarios that mix them; nothing where none does."""
    rows = [
        (
            f"{scenario.label}: {name}",
            str(part.requests),
            *(_of(part.ttft, percentile) for percentile, _ in PERCENTILES),
            _of(part.tpot, "p50"),
            _of(part.e2e, "p50"),
        )
        for scenario in scenarios
        if len(scenario.parts) > 1
        for name, part in scenario.parts.items()
    ]
    head = ("kind of request", "n", "TTFT p50", "p90", "p99", "time per token p50", "whole p50")
    return f"Kinds of requests beside each other:\n\n{markdown.table(head, rows)}" if rows else ""


def _of(spread: Spread | None, name: str) -> str:
    return seconds(None if spread is None else getattr(spread, name))


def _plot(scenarios: Sequence[Scenario]) -> Plot:
    """The TTFT's percentiles, and requests a second; filled: those that kept the objective."""
    title = "Latency and goodput under load"
    places = range(len(scenarios))
    with drawn(9.5, 0.36 * len(scenarios) + 1.4, columns=2) as (figure, (left, right)):
        for place, scenario in enumerate(scenarios):
            if (ttft := scenario.ttft) is not None:
                left.plot([ttft.p50, ttft.p99], [place, place], color=look("plain").colour)
                for name, marker in PERCENTILES:
                    first = name if place == 0 else None
                    colour = look("qgpm").colour
                    left.plot([getattr(ttft, name)], [place], marker, color=colour, label=first)
        left.set_xscale("log")
        left.xaxis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0)))
        left.xaxis.set_major_formatter(lambda value, _: f"{value:g}")
        left.minorticks_off()
        left.set_yticks(places, [scenario.label for scenario in scenarios])
        left.set_xlabel("time to the first token (s)")
        left.legend(loc="upper center", bbox_to_anchor=(0.5, 1.0 + 0.7 / len(scenarios)), ncols=3)
        reached = [scenario.requests_per_second for scenario in scenarios]
        kept = [scenario.goodput.requests_per_second for scenario in scenarios]
        right.barh(places, reached, color="none", edgecolor=INK, label="answered", height=0.6)
        right.barh(places, kept, color=look("string").colour, label="within the objective", height=0.6)
        right.set_yticks(places, [])
        right.set_xlabel("requests a second")
        right.legend(loc="upper center", bbox_to_anchor=(0.5, 1.0 + 0.7 / len(scenarios)), ncols=2)
        for axis in (left, right):
            axis.set_ylim(len(scenarios) - 0.5, -0.5)
        worded = "; ".join(
            f"{scenario.label}: TTFT {_of(scenario.ttft, 'p50')} (p99 {_of(scenario.ttft, 'p99')}), "
            f"goodput {scenario.goodput.requests_per_second:.2f} a second"
            for scenario in scenarios
        )
        return plot(figure, "load", title, f"{title}. {worded}.")


def _left_out(load: Load) -> Iterator[str]:
    failed = [
        f"{scenario.label}: {count} of {kind}"
        for scenario in load.scenarios
        for kind, count in scenario.errors.items()
    ]
    skipped = [f"{one.name} was left out: {one.reason}" for one in load.skipped]
    if failed or skipped:
        yield markdown.bullets([*(f"errors in {text}" for text in failed), *skipped])
    if load.interrupted:
        yield "**The run was interrupted**: its last line holds what had ended, the rest was not measured."
