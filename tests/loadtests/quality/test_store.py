"""A result file goes on where it stopped, and never mixes two settings."""

import json
from pathlib import Path
from typing import Any

import pytest

from loadtests.quality.observations import Key, Observation, ObservationError, read
from loadtests.quality.store import SettingError, Store
from tests.loadtests import quality_runs

SETTING = quality_runs.setting(flags=("--dtype", "bfloat16"))


def observation(number: int, **changed: Any) -> Observation:
    return Observation(**quality_runs.line("gold", number, -1.5, **changed))


def test_a_run_goes_on_with_what_the_one_before_kept(tmp_path: Path) -> None:
    path = tmp_path / "measured" / "quality.jsonl"
    first = Store.open(path, SETTING)
    assert first.seen == set()
    first.add(observation(0))
    first.add(observation(1, output="Ärger\nin Żagań"))
    second = Store.open(path, SETTING)
    assert second.seen == first.seen == {Key("single", 500, "gold", 0), Key("single", 500, "gold", 1)}
    second.add(observation(2))
    assert [found.number for found in read(path).observations] == [0, 1, 2]
    assert read(path).observations[1].output == "Ärger\nin Żagań"


@pytest.mark.parametrize("cut", range(1, 40, 6))
def test_what_an_interruption_left_of_a_line_is_made_again(tmp_path: Path, cut: int) -> None:
    path = tmp_path / "quality.jsonl"
    store = Store.open(path, SETTING)
    store.add(observation(0))
    store.add(observation(1))
    path.write_bytes(path.read_bytes()[:-cut])
    again = Store.open(path, SETTING)
    assert again.seen == {Key("single", 500, "gold", 0)}
    again.add(observation(1))
    assert [found.number for found in read(path).observations] == [0, 1]


def test_a_file_whose_setting_was_cut_begins_anew(tmp_path: Path) -> None:
    path = tmp_path / "quality.jsonl"
    path.write_text(json.dumps(SETTING)[:20])
    assert Store.open(path, SETTING).seen == set()
    assert read(path).setting["seed"] == SETTING["seed"]


def test_another_setting_is_refused_and_what_differs_is_named(tmp_path: Path) -> None:
    path = tmp_path / "quality.jsonl"
    Store.open(path, SETTING).add(observation(0))
    kept = path.read_bytes()
    other = {**SETTING, "seed": 8, "dtype": "float32"}
    with pytest.raises(SettingError, match=r"dtype, seed differ.*--out") as refused:
        Store.open(path, other)
    assert refused.value.names == ("dtype", "seed")
    assert path.read_bytes() == kept


@pytest.mark.parametrize("content", [b"notes without an end", b"a line\nand half of another", b"\xff\n\x80"])
def test_a_file_that_no_run_left_is_refused_and_not_touched(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "notes.txt"
    path.write_bytes(content)
    with pytest.raises(ObservationError, match=r"notes\.txt:1"):
        Store.open(path, SETTING)
    assert path.read_bytes() == content


def test_another_settings_file_keeps_its_unfinished_line(tmp_path: Path) -> None:
    path = tmp_path / "quality.jsonl"
    Store.open(path, SETTING).add(observation(0))
    path.write_bytes(path.read_bytes()[:-5])
    kept = path.read_bytes()
    with pytest.raises(SettingError):
        Store.open(path, {**SETTING, "seed": 8})
    assert path.read_bytes() == kept


def test_what_is_no_file_is_refused_before_it_is_read(tmp_path: Path) -> None:
    for path in (tmp_path, Path("/dev/full")):  # the second never ends
        with pytest.raises(FileExistsError):
            Store.open(path, SETTING)
