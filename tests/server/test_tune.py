from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from cache import head_profile
from cache.head_profile import HeadProfile
from positional.guard import PACKAGE_GUARD
from positional.qgpm import PACKAGE_DEFAULTS, QGPMConfig
from server import default_model, tune
from server.command import main
from server.tune import TuningError
from server.tune_clock import Clock
from server.tune_held_out import MOST_BLOCKS
from server.tune_search import BlockGain, Search
from tests.support import checkpoints

MODEL = default_model.fetch(progress=False)


class Measured:
    """Gains that grow with `score_low`, of which each takes so many seconds of a clock of its own."""

    def __init__(self, seconds: float = 1.0, first_block_seconds: float | None = None) -> None:
        self.time = 0.0
        self.seconds = seconds
        self.first_seconds = seconds if first_block_seconds is None else first_block_seconds
        self.seen: set[int] = set()

    def now(self) -> float:
        return self.time

    def __call__(self, config: QGPMConfig, block: int) -> BlockGain:
        self.time += self.seconds if block in self.seen else self.first_seconds
        self.seen.add(block)
        return BlockGain(config.score_low + block % 2, config.score_low)


def found(measured: Measured, limit: float, incumbent: QGPMConfig = PACKAGE_DEFAULTS) -> tune.HeldOut:
    return tune.find(measured, incumbent, 0, Clock(limit, measured.now), Search())


@pytest.mark.parametrize(("seconds", "first"), [(1.0, 1.0), (7.0, 7.0), (5.0, 11.0)])
@pytest.mark.parametrize("limit", [60.0, 600.0])
def test_the_time_is_used_and_never_passed(seconds: float, first: float, limit: float) -> None:
    measured = Measured(seconds, first)

    held_out = found(measured, limit)

    assert measured.time <= limit
    assert held_out.challenger_gains
    assert measured.time > limit - 3 * first or len(held_out.challenger_gains) == MOST_BLOCKS


def test_what_is_better_becomes_the_default() -> None:
    held_out = found(Measured(), 600)

    assert held_out.changes
    assert held_out.chosen.score_low > 0.9


def test_defaults_that_nothing_beats_stay() -> None:
    best = PACKAGE_DEFAULTS.resolve({"score_low": 0.99})

    held_out = found(Measured(), 600, best)

    assert not held_out.changes
    assert held_out.chosen == best


def test_time_for_nothing_is_an_error() -> None:
    measured = Measured()
    with pytest.raises(TuningError, match="too short"):
        tune.find(measured, PACKAGE_DEFAULTS, 0, Clock(0.0, measured.now), Search())


def test_an_interrupted_search_prints_its_best_and_writes_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def interrupted(
        folder: Path, profile: HeadProfile, minutes: float, seed: int, search: Search, *, guard_only: bool
    ) -> Any:
        measured = Measured()

        def objective(config: QGPMConfig, block: int) -> BlockGain:
            if measured.time == 40:
                raise KeyboardInterrupt
            return measured(config, block)

        return tune.find(objective, profile.defaults, seed, Clock(600, measured.now), search)

    monkeypatch.setattr(tune, "tune", interrupted)
    out = tmp_path / "heads.json"

    assert main(["tune", str(MODEL), "--out", str(out), "--minutes", "10"]) == 130

    printed = capsys.readouterr()
    assert '"score_low"' in printed.out
    assert "defaults" in printed.out
    assert "interrupted" in printed.err
    assert not out.exists()


def test_the_result_goes_into_the_profile_and_is_printed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def tuned(
        folder: Path, profile: HeadProfile, minutes: float, seed: int, search: Search, *, guard_only: bool
    ) -> Any:
        assert not guard_only
        held_out = tune.find(measured, profile.defaults, seed, Clock(600, measured.now), search)
        return held_out, tune.tuned_profile(profile, held_out, minutes, seed, (500,), 135)

    measured = Measured()
    monkeypatch.setattr(tune, "tune", tuned)
    out = tmp_path / "heads.json"
    before = head_profile.find(MODEL, None)
    assert before is not None

    assert main(["tune", str(MODEL), "--out", str(out), "--minutes", "10", "--seed", "3"]) == 0

    written = head_profile.load(out)
    assert written.heads == before.heads
    assert written.tuning is not None
    assert (written.tuning.split, written.tuning.seed, written.tuning.minutes) == ("tuning", 3, 10)
    assert written.tuning.changed is (written.defaults != before.defaults)
    assert written.tuning.gain_heads.mean == pytest.approx(written.defaults.score_low, abs=1e-3)
    assert str(out) in capsys.readouterr().out


def test_the_guard_alone_leaves_the_settings_as_they_are(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def tuned(
        folder: Path, profile: HeadProfile, minutes: float, seed: int, search: Search, *, guard_only: bool
    ) -> Any:
        assert guard_only
        return None, replace(profile, guard=PACKAGE_GUARD, relevance={"heads": 1.0, "lexical": 2.0})

    monkeypatch.setattr(tune, "tune", tuned)
    out = tmp_path / "heads.json"
    before = head_profile.find(MODEL, None)
    assert before is not None

    assert main(["tune", str(MODEL), "--out", str(out), "--minutes", "10", "--guard-only"]) == 0

    written = head_profile.load(out)
    assert (written.guard, written.relevance) == (PACKAGE_GUARD, {"heads": 1.0, "lexical": 2.0})
    assert (written.defaults, written.tuning) == (before.defaults, before.tuning)
    printed = capsys.readouterr().out
    assert "'lexical': 2.0" in printed
    assert "gold evidence" not in printed


def test_what_cannot_be_done_is_said_before_the_work(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    absent = tmp_path / "absent" / "heads.json"
    for arguments, said in (
        ([str(MODEL), "--out", str(absent)], "absent"),
        ([str(MODEL), "--out", str(tmp_path)], "is no file"),
        ([str(tmp_path / "no model"), "--out", str(tmp_path / "out.json")], "neither a folder"),
        ([str(tmp_path), "--out", str(tmp_path / "out.json")], "ropeway calibrate"),
        (
            [str(MODEL), "--out", str(tmp_path / "out.json"), "--head-profile", str(absent)],
            str(absent),
        ),
    ):
        assert main(["tune", *arguments]) == 1
        assert said in capsys.readouterr().err


def test_time_that_is_over_before_the_server_is_ready_is_said_to_be_too_short(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "heads.json"
    assert main(["tune", str(MODEL), "--out", str(out), "--minutes", "0.001"]) == 1
    assert "too short" in capsys.readouterr().err
    assert not out.exists()


@pytest.mark.parametrize("minutes", ["0", "61", "nan", "soon"])
def test_minutes_are_more_than_none_and_at_most_an_hour(
    minutes: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit):
        main(["tune", "model", "--out", "file", "--minutes", minutes])
    assert "--minutes" in capsys.readouterr().err


@pytest.mark.long
def test_a_tiny_model_is_tuned_over_http(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = checkpoints.make("llama", tmp_path / "tiny", layers=2, max_positions=1024 + tune.ROOM)
    heads, out = folder / head_profile.FILE_NAME, tmp_path / "tuned.json"
    assert main(["calibrate", str(folder), "--out", str(heads), "--samples", "4"]) == 0

    assert main(["tune", str(folder), "--out", str(out), "--minutes", "4"]) == 0

    tuned = head_profile.load(out)
    assert tuned.heads == head_profile.load(heads).heads
    assert tuned.tuning is not None
    assert tuned.tuning.lengths == (500, 1000)
    assert tuned.tuning.held_out >= 3 * len(tuned.tuning.kinds)
    assert "held-out samples" in capsys.readouterr().out
