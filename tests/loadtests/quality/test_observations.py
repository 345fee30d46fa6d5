import json
from pathlib import Path
from typing import Any

import pytest

from loadtests.quality.observations import Grid, ObservationError, read

SETTING: dict[str, Any] = {"seed": 3, "grid": {"tasks": ["single", "qa"], "methods": {"plain": [500, 1000]}}}
LINE: dict[str, Any] = {
    "task": "single",
    "length": 500,
    "number": 0,
    "depth": 0.5,
    "method": "plain",
    "logprob": -1.5,
    "tokens": 3,
    "correct": 1,
    "output": "Brack",
    "prompt_tokens": 550,
    "cached_tokens": 0,
    "mode": "plain",
    "reason": None,
    "evidence_rank": None,
    "confidence": None,
    "seconds": 0.4,
}


def _file(folder: Path, *lines: object) -> Path:
    path = folder / "quality.jsonl"
    path.write_text("".join(json.dumps(line) + "\n" for line in lines), encoding="utf-8")
    return path


def test_a_file_is_its_setting_and_its_observations_in_order(tmp_path: Path) -> None:
    run = read(_file(tmp_path, SETTING, LINE, {**LINE, "number": 1, "correct": 0.25}))
    assert run.setting == SETTING
    assert run.grid == Grid(("single", "qa"), {"plain": (500, 1000)})
    assert [(o.number, o.correct) for o in run.observations] == [(0, 1.0), (1, 0.25)]


def test_a_grid_names_every_cell(tmp_path: Path) -> None:
    cells = list(read(_file(tmp_path, SETTING)).grid.cells())
    assert cells == [(t, n, "plain") for t in ("single", "qa") for n in (500, 1000)]


def test_an_unfinished_last_line_is_left_out(tmp_path: Path) -> None:
    path = _file(tmp_path, SETTING, LINE)
    path.write_text(path.read_text() + json.dumps({**LINE, "number": 1}), encoding="utf-8")
    assert [observation.number for observation in read(path).observations] == [0]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"correct": 1.5}, "correct: Input should be less than or equal to 1"),
        ({"logprob": "-1"}, "logprob: Input should be a valid number"),
        ({"colour": 1}, "colour: Unexpected keyword argument"),
    ],
)
def test_a_line_that_is_not_an_observation_is_refused_by_its_place(
    tmp_path: Path, change: dict[str, Any], message: str
) -> None:
    path = _file(tmp_path, SETTING, LINE, {**LINE, "number": 1, **change})
    with pytest.raises(ObservationError) as refused:
        read(path)
    assert (refused.value.path, refused.value.line, refused.value.message) == (path, 3, message)


def test_the_same_sample_is_observed_once_by_each_method(tmp_path: Path) -> None:
    assert len(read(_file(tmp_path, SETTING, LINE, {**LINE, "method": "qgpm"})).observations) == 2
    with pytest.raises(ObservationError, match="3: observes again what line 2 does"):
        read(_file(tmp_path, SETTING, LINE, {**LINE, "logprob": -9.0}))


@pytest.mark.parametrize("setting", [[], {"seed": 3}, {"grid": {"tasks": ["qa"]}}])
def test_a_file_without_a_setting_is_refused(tmp_path: Path, setting: object) -> None:
    with pytest.raises(ObservationError) as refused:
        read(_file(tmp_path, setting, LINE))
    assert refused.value.line == 1


def test_an_empty_file_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ObservationError, match="there is no setting"):
        read(_file(tmp_path))
