import json
from pathlib import Path
from typing import Any

import pytest

from cache import head_profile
from loadtests.results.files import ResultFileError, read
from tests.loadtests import result_files


def test_what_was_not_measured_is_none(tmp_path: Path) -> None:
    found = read(tmp_path)
    assert (found.quality, found.bench, found.load) == (None, None, None)
    assert found.profile == head_profile.shipped()[0]


def test_the_head_profile_is_that_of_the_model_that_was_measured(tmp_path: Path) -> None:
    shipped = head_profile.shipped()[0]
    result_files.quality(tmp_path / "quality.jsonl", fingerprint=shipped.fingerprint)
    assert read(tmp_path).profile == shipped
    result_files.quality(tmp_path / "quality.jsonl", fingerprint="0" * 64)
    assert read(tmp_path).profile is None


def test_every_file_is_read(tmp_path: Path) -> None:
    found = read(result_files.every(tmp_path) / "results")
    assert found.quality is not None
    assert found.bench is not None
    assert found.load is not None
    assert [line.median for line in found.bench.lines] == [1.01, 2.5]
    assert [scenario.label for scenario in found.load.scenarios] == [
        "plain, 4 at a time",
        "mixed, poisson, 0.5/s",
    ]
    assert [scenario.failed for scenario in found.load.scenarios] == [0, 3]
    assert found.load.scenarios[1].ttft is None


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("bench.json", result_files.bench(lines=[{"name": "x"}]), "lines.0.median: Field required"),
        ("load.json", result_files.load(scenarios=None), "scenarios: Input should be a valid array"),
    ],
)
def test_a_file_that_is_not_what_it_should_be_is_refused_by_name_and_place(
    tmp_path: Path, name: str, content: dict[str, Any], message: str
) -> None:
    (tmp_path / name).write_text(json.dumps(content), encoding="utf-8")
    with pytest.raises(ResultFileError) as refused:
        read(tmp_path)
    assert (refused.value.path, refused.value.message) == (tmp_path / name, message)
