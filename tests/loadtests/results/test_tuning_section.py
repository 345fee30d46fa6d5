from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

from cache import head_profile
from cache.head_profile import Gain, HeadProfile, Tuning
from loadtests.quality.observations import read
from loadtests.results.tuning_section import section
from tests.loadtests import result_files

TUNING = Tuning(
    samples=80,
    held_out=40,
    split="tuning",
    seed=3,
    kinds=("single", "qa"),
    lengths=(500, 1000),
    text="Some book",
    minutes=60.0,
    changed=True,
    gain_evidence=Gain(0.5, 0.25, 0.75),
    gain_heads=Gain(-0.5, -1.0, 0.25),
)


def _profile(**changed: Any) -> HeadProfile:
    return replace(head_profile.shipped()[0], tuning=replace(TUNING, **changed))


def test_the_record_of_the_tuning_is_told_with_both_gains() -> None:
    text = section(_profile(), None).text
    for said in (
        "60 minutes",
        "80 samples",
        "seed 3",
        "single, qa",
        "500, 1000",
        "Some book",
        "40 served only",
    ):
        assert said in text
    assert "| gold evidence | +0.50 (+0.25 to +0.75) |" in text
    assert "| the heads | −0.50 (−1.00 to +0.25) |" in text


def test_a_tuning_that_changed_nothing_says_so() -> None:
    assert "so they stayed" in section(_profile(changed=False), None).text
    assert "so they stayed" not in section(_profile(changed=True), None).text


def test_defaults_that_were_never_tuned_are_called_so() -> None:
    assert "**not tuned**" in section(replace(_profile(), tuning=None), None).text


def test_a_run_of_other_defaults_than_the_profiles_is_called_so(tmp_path: Path) -> None:
    profile = _profile()
    defaults = asdict(profile.defaults)
    same = read(result_files.quality(tmp_path / "same.jsonl", defaults=defaults))
    other = read(result_files.quality(tmp_path / "other.jsonl", defaults={**defaults, "k_sharp": 1}))
    assert "had other defaults" not in section(profile, same).text
    assert "**The quality run had other defaults**" in section(profile, other).text


def test_a_model_without_a_shipped_profile_is_called_so() -> None:
    assert "No shipped head profile" in section(None, None).text
