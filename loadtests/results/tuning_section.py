"""The section on the head profile: the defaults that served, and how they were found."""

from collections.abc import Iterator
from dataclasses import asdict

from cache.head_profile import Gain, HeadProfile
from loadtests.quality.notation import interval
from loadtests.quality.observations import Run
from loadtests.quality.statistics import Interval
from loadtests.results import markdown
from loadtests.results.section import Section

TITLE = "Which settings were used?"


def section(profile: HeadProfile | None, run: Run | None) -> Section:
    """Of the shipped profile, beside the quality run that it served."""
    if profile is None:
        return Section(TITLE, ("No shipped head profile is of the model that was measured.",))
    calibration = profile.calibration
    heads = ", ".join(f"layer {head.layer} head {head.head}" for head in profile.heads)
    return Section(
        TITLE,
        (
            f"The head profile of {profile.model} reads {heads}. Their joint mean reciprocal rank on "
            f"samples that did not choose them was {calibration.held_out_mrr:.3f} ({calibration.samples} "
            f"samples; seed {calibration.seed}; {markdown.value(calibration.lengths)} tokens; "
            f"{calibration.text}; {calibration.dtype}).",
            f"Defaults: {markdown.value(asdict(profile.defaults))}.",
            *_differs(profile, run),
            *_tuning(profile),
        ),
    )


def _differs(profile: HeadProfile, run: Run | None) -> Iterator[str]:
    served = None if run is None else run.setting.get("defaults")
    if served is not None and served != asdict(profile.defaults):
        yield f"**The quality run had other defaults**: {markdown.value(served)}."


def _tuning(profile: HeadProfile) -> Iterator[str]:
    tuning = profile.tuning
    if tuning is None:
        yield (
            "They are the package's, **not tuned**: `ropeway tune MODEL --out FILE` searches them on "
            "samples of the tuning split."
        )
        return
    found = "What it found was better than the defaults before."
    kept = "Nothing was better than the defaults before, so they stayed."
    yield (
        f"`ropeway tune` looked for them within {tuning.minutes:g} minutes on {tuning.samples} samples of "
        f"the {tuning.split} split (seed {tuning.seed}; {', '.join(tuning.kinds)}; "
        f"{markdown.value(tuning.lengths)} tokens; {tuning.text}), of which {tuning.held_out} served only "
        f"the comparison at the end. {found if tuning.changed else kept} "
        "The heads count as the guard's default dial lets them pass."
    )
    yield markdown.table(
        ("less plain, on the held-out samples", "log-probability, nats (95 %)"),
        (("gold evidence", _gain(tuning.gain_evidence)), ("the heads", _gain(tuning.gain_heads))),
    )


def _gain(gain: Gain) -> str:
    return interval(Interval(gain.mean, gain.low, gain.high))
