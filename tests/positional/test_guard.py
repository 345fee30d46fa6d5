import math
from dataclasses import asdict, replace

import pytest
import torch

from positional.guard import (
    DEFAULT_DIAL,
    PACKAGE_GUARD,
    SURE,
    Guard,
    Signs,
    judge,
    softened,
)
from positional.qgpm import PACKAGE_DEFAULTS, NothingToModulate
from positional.relevance import standardise, unity
from positional.sources.contract import Reading, SourceName
from positional.sources.fusion import Choice, fuse


def _reading(values: list[float] | torch.Tensor, source: SourceName = "heads") -> Reading:
    values = torch.as_tensor(values, dtype=torch.float64)
    return Reading(source, standardise(values[:, None]), 0.0)


def _spans(count: int) -> list[tuple[int, int]]:
    return [(20 * index, 20 * index + 20) for index in range(count)]


def _signs(*readings: Reading) -> Signs:
    z = fuse(readings, Choice(tuple((reading.source, 1.0) for reading in readings)))
    return Signs.of(readings, z, _spans(len(z)), 5)


def _noise(seed: int, count: int = 80, source: SourceName = "heads") -> Reading:
    """Of two heads, or of one list of vectors, that say nothing."""
    signals = torch.randn(
        count,
        2 if source == "heads" else 1,
        generator=torch.Generator().manual_seed(seed),
        dtype=torch.float64,
    )
    z = standardise(signals)
    return Reading(source, z, 0.0, unity=unity(signals, z))


def _standing_out(seed: int, source: SourceName = "heads") -> Reading:
    values = _noise(seed).z.clone()
    values[30] = 12.0
    return _reading(values, source)


@pytest.mark.parametrize("sources", [("heads",), ("embedding",)])
def test_random_relevance_is_answered_plainly_in_95_of_100_requests(sources: tuple[SourceName, ...]) -> None:
    decisions = []
    for seed in range(200):
        readings = [_noise(1000 * number + seed, source=name) for number, name in enumerate(sources)]
        confidence = PACKAGE_GUARD.confidence(_signs(*readings))
        decisions.append(PACKAGE_GUARD.decide(confidence, DEFAULT_DIAL))
    assert decisions.count("plain") >= 190


@pytest.mark.parametrize("source", ["heads", "embedding"])
def test_a_sentence_that_stands_far_out_is_trusted(source: SourceName) -> None:
    for seed in range(20):
        confidence = PACKAGE_GUARD.confidence(_signs(_standing_out(seed, source)))
        assert PACKAGE_GUARD.decide(confidence, DEFAULT_DIAL) == "full"


def test_a_source_that_disagrees_lowers_the_confidence() -> None:
    sure = _standing_out(0)
    alike, other = _standing_out(1, "lexical"), _noise(2, source="lexical")
    agreeing, doubted = (PACKAGE_GUARD.confidence(_signs(sure, second)) for second in (alike, other))
    assert agreeing > doubted


@pytest.mark.parametrize(
    ("shared", "terms", "signs"),
    [(3, 4, (math.log(4), 0.0)), (1, 4, (math.log(2), 1.0)), (1, 1, (math.log(2), 0.0)), (0, 4, (0.0, 0.0))],
)
def test_one_shared_term_of_several_is_told_from_more(
    shared: int, terms: int, signs: tuple[float, float]
) -> None:
    counts = torch.zeros(80, dtype=torch.int64)
    counts[30] = shared
    words = replace(_standing_out(0, "lexical"), shared=counts, terms=terms)
    found = _signs(words)
    assert (found.shared, found.sole) == pytest.approx(signs)
    fused = _signs(_standing_out(1), words)
    assert (fused.shared, fused.sole) == pytest.approx(signs)


def test_without_words_no_term_is_shared() -> None:
    found = _signs(_standing_out(0), _standing_out(1, "embedding"))
    assert (found.shared, found.sole) == (0, 0)


def test_one_word_that_a_single_sentence_shares_is_not_trusted_and_several_are() -> None:
    decisions = []
    for shared in (1, 3):
        counts = torch.zeros(80, dtype=torch.int64)
        counts[30] = shared
        reading = Reading("lexical", standardise(counts.double()[:, None]), 0.0, shared=counts, terms=4)
        confidence = PACKAGE_GUARD.confidence(_signs(reading))
        decisions.append(PACKAGE_GUARD.decide(confidence, DEFAULT_DIAL))
    assert decisions == ["plain", "full"]


def test_a_dial_of_0_always_lets_qgpm_act() -> None:
    readings = [_noise(3)]
    verdict = judge(PACKAGE_GUARD, 0.0, readings, readings[0].z, _spans(80), 5)
    assert (verdict.decision, verdict.asked) == ("full", 0.0)


def test_a_dial_asks_for_more_the_higher_it_is() -> None:
    guard = replace(PACKAGE_GUARD, level=0.4)
    asked = [guard.asks(dial / 10) for dial in range(11)]
    assert asked == sorted(asked)
    assert (guard.asks(0.0), guard.asks(DEFAULT_DIAL), guard.asks(1.0)) == (0.0, 0.4, SURE)


def test_a_confidence_just_below_what_is_asked_softens() -> None:
    guard = Guard(PACKAGE_GUARD.weights, 0.0, level=0.5)
    decisions = [guard.decide(confidence, DEFAULT_DIAL) for confidence in (0.5, 0.49, 0.46, 0.44, 0.0)]
    assert decisions == ["full", "soft", "soft", "plain", "plain"]


def test_the_callers_own_evidence_is_not_doubted() -> None:
    caller = _noise(4, source="caller")
    verdict = judge(PACKAGE_GUARD, 1.0, [caller], caller.z, _spans(80), 5)
    assert (verdict.decision, verdict.confidence, verdict.signs) == ("full", 1.0, None)


@pytest.mark.parametrize(("count", "reason"), [(1, "too_few_sentences"), (9, "equal_relevance")])
def test_sentences_that_nothing_tells_apart_are_not_judged(count: int, reason: str) -> None:
    z = torch.zeros(count, dtype=torch.float64)
    with pytest.raises(NothingToModulate) as found:
        judge(PACKAGE_GUARD, 0.5, [Reading("heads", z, 0.0)], z, _spans(count), 5)
    assert found.value.reason == reason


@pytest.mark.parametrize("count", [2, 3, 5, 6, 40, 1000])
def test_signs_are_finite_for_any_number_of_sentences(count: int) -> None:
    for values in (range(count), [0] * (count - 1) + [1], [1] * (count - 1) + [0]):
        signs = _signs(_reading([float(value) for value in values]))
        assert all(math.isfinite(value) for value in asdict(signs).values())
        assert 0 <= PACKAGE_GUARD.confidence(signs) <= 1


def test_signs_say_what_they_are_named_after() -> None:
    # 4 of 80 are evidence: they stand 9 deviations above the others, which lie at -1 and 1 in turn.
    values = [-1.0, 1.0] * 38 + [9.0] * 4
    signs = _signs(_reading(values, "lexical"))
    assert signs.evidence == pytest.approx(math.log(4))
    assert signs.margin == pytest.approx(math.log1p(8))
    assert signs.prominence == pytest.approx(math.log1p(9) - math.log1p(math.sqrt(2 * math.log(80))))
    assert signs.agreement == pytest.approx(1 / 2.5)  # the mean rank of four equals
    assert signs.compressed == pytest.approx(75 / 80)
    assert (signs.heads, signs.lexical, signs.embedding) == (0, 1, 0)


def test_soft_maps_lie_between_the_full_ones_and_none() -> None:
    soft = softened(PACKAGE_DEFAULTS)
    assert soft.k_sharp > PACKAGE_DEFAULTS.k_sharp
    assert PACKAGE_DEFAULTS.score_low < soft.score_low < 1
    assert PACKAGE_DEFAULTS.stride_floor < soft.stride_floor < 1
    at_most = replace(PACKAGE_DEFAULTS, stride_floor=1.0, score_low=0.0)
    assert softened(at_most).stride_floor == 1.0
