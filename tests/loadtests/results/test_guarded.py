"""What the report says of what the guard let pass, and of relevance that is chance."""

from pathlib import Path

from loadtests.quality.observations import Run, read
from loadtests.results.quality.guarded import chance, guarded
from tests.loadtests.quality_runs import cells, line, setting, write

NUMBERS = range(8)


def test_the_share_of_modulated_requests_is_told_task_by_task(tmp_path: Path) -> None:
    lines = [
        line("qgpm_guarded", number, -5.0, task=task, mode="qgpm" if number < modulated else "plain")
        for task, modulated in (("single", 6), ("qa", 1))
        for number in NUMBERS
    ]
    told = guarded(cells(tmp_path, setting(), line("plain", 0, -5.0), *lines))
    assert "| QGPM as served | 6 of 8 (75 %) | 1 of 8 (12 %) | 7 of 16 (44 %) |" in told


def test_nothing_is_told_where_no_method_has_a_guard(tmp_path: Path) -> None:
    seen = cells(tmp_path, setting(), line("plain", 0, -5.0), line("qgpm", 0, -4.0))
    assert guarded(seen) == ""


def _chance_run(folder: Path, loss: float) -> Run:
    lines = []
    for number in NUMBERS:
        lines += [
            line("plain", number, -5.0),
            line("chance_guarded", number, -5.0, mode="plain"),
            line("heads_guarded", number, -4.0 - 0.01 * number),
            line("heads_chance_guarded", number, -4.0 - loss - 0.01 * number),
        ]
    return read(write(folder / "chance.jsonl", setting(), *lines))


def test_chance_stands_beside_the_same_without_it(tmp_path: Path) -> None:
    text = chance(_chance_run(tmp_path, 0.5)).text
    assert "| chance, guarded | plain | 0 of 8 (0 %) | +0.00 (+0.00 to +0.00) | 8 | 0 of 1 |" in text
    assert "| heads and chance, guarded | heads, guarded | 8 of 8 (100 %) | −0.50" in text
    assert "| 8 | 1 of 1 |" in text
    assert "1 of 1" not in chance(_chance_run(tmp_path, 0.0)).text


def test_where_chance_was_not_measured_the_command_is_told() -> None:
    text = chance(None).text
    assert "Not measured yet" in text
    assert "--methods chance_guarded,heads_chance_guarded,lexical_chance_guarded" in text
