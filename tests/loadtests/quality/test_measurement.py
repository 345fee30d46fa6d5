"""What a run refuses before anything is asked."""

from dataclasses import replace

import pytest

from cache import head_profile
from cache.head_profile import Gain, HeadProfile, Tuning
from loadtests.quality.measurement import QualityError, check_samples
from server.overlap import OverlapError


@pytest.fixture
def shipped() -> HeadProfile:
    """The default model's."""
    return head_profile.shipped()[0]


def tuned_on(profile: HeadProfile, split: str, seed: int) -> HeadProfile:
    gain = Gain(0.5, 0.1, 0.9)
    tuning = Tuning(60, 30, split, seed, ("single",), (500,), "a text", 10.0, True, gain, gain)
    return replace(profile, tuning=tuning)


def test_the_shipped_profile_was_chosen_by_other_samples(shipped: HeadProfile) -> None:
    for seed in range(3):
        check_samples(shipped, seed)


@pytest.mark.parametrize("seed", [0, 1])
def test_defaults_that_were_tuned_on_what_is_asked_are_refused(shipped: HeadProfile, seed: int) -> None:
    with pytest.raises(OverlapError, match="have parts in common"):
        check_samples(tuned_on(shipped, "evaluation", seed), 0)


def test_defaults_that_were_tuned_on_unknown_samples_are_refused(shipped: HeadProfile) -> None:
    with pytest.raises(QualityError, match="unknown samples, of 'elsewhere'"):
        check_samples(tuned_on(shipped, "elsewhere", 0), 0)
