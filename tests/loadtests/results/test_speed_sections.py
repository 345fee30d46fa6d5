from typing import Any

import pytest
from pydantic import TypeAdapter

from loadtests.results import bench_section, load_section
from loadtests.results.bench_file import Bench
from loadtests.results.load_file import Load
from loadtests.results.section import Section
from tests.loadtests import result_files


def _bench(**changed: Any) -> Section:
    return bench_section.section(TypeAdapter(Bench).validate_python(result_files.bench(**changed)))


def _load(**changed: Any) -> Section:
    return load_section.section(TypeAdapter(Load).validate_python(result_files.load(**changed)))


def test_every_ratio_is_told_with_times_interval_and_promise() -> None:
    times, ratio = "1.00 s | 1.01 s", "1.010 | 0.990 to 1.030 | 1.000 to 1.020 | 2"
    assert f"| plain TTFT / stock | {times} | {ratio} | within 2% | holds |" in _bench().text


def test_promises_that_do_not_hold_are_named() -> None:
    assert "**Promises that do not hold:** QGPM TTFT / plain." in _bench().text
    assert "All 1 promises hold." in _bench(lines=result_files.bench()["lines"][:1]).text


def test_ratios_are_plotted() -> None:
    [plot] = _bench().plots
    assert plot.name == "ratios.svg"
    assert plot.alt.endswith("plain TTFT / stock 1.01; QGPM TTFT / plain 2.50.")


def test_stages_start_and_memory_are_told() -> None:
    text = _bench().text
    assert "| 2,000 | 2 | 400 ms (40.0 %) | 600 ms (60.0 %) |" in text
    assert "| ropeway | 25.00 s | 24.0 to 26.0 s | 2 | 1024.0 MiB |" in text
    assert "| key shadow, beside the whole KV cache | 1.0 MiB | 1024.0 MiB | 0.1 % |" in text


def test_an_interrupted_bench_tells_what_it_has() -> None:
    text = _bench(lines=[], shadow=None, stages=[], start_seconds={"stock": [20.0], "ropeway": []}).text
    assert "**Nothing was measured yet.**" in text
    assert "| stock | 20.00 s |" in text


def test_every_scenario_is_told_with_its_arrival() -> None:
    row = "| plain, 4 at a time | 30 | 0 | 400 ms | 900 ms | 1.50 s |"
    assert row in _load().text


def test_what_failed_and_what_was_left_out_is_said() -> None:
    text = _load().text
    assert "- errors in mixed, poisson, 0.5/s: 3 of HTTP 500" in text
    assert "- qgpm_cold was left out: the server does not know qgpm" in text
    assert "interrupted" not in text
    assert "**The run was interrupted**" in _load(interrupted=True).text


def test_kinds_that_a_scenario_mixes_are_told_apart() -> None:
    part = {"requests": 15, "ttft": result_files.SPREAD, "tpot": {}, "e2e": result_files.SPREAD}
    mixed = result_files.scenario("mixed", parts={"plain": part, "qgpm": part})
    text = _load(scenarios=[mixed]).text
    assert "| mixed, 4 at a time: qgpm | 15 | 400 ms | 900 ms | 1.50 s | – | 400 ms |" in text
    assert "Kinds of requests" not in _load().text


def test_the_objective_of_goodput_is_stated() -> None:
    assert "within 2 s and whose others took at most 100 ms each" in _load().text


def test_latency_and_goodput_are_plotted() -> None:
    [plot] = _load().plots
    assert plot.name == "load.svg"
    assert "plain, 4 at a time: TTFT 400 ms (p99 1.50 s), goodput 1.50 a second" in plot.alt


@pytest.mark.parametrize(
    ("section", "command"),
    [
        (bench_section.section(None), 'make bench ARGS="--out docs/results/bench.json"'),
        (load_section.section(None), "make loadtest URL="),
    ],
)
def test_without_a_measurement_the_section_says_how_to_make_one(section: Section, command: str) -> None:
    assert "Not measured yet" in section.text
    assert command in section.text
