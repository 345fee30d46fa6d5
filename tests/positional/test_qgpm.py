"""QGPM: scores of eq. 6, protected prefixes, and when there is nothing to modulate."""

import dataclasses
import math
import sys

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from positional.profile import Profile
from positional.qgpm import (
    PACKAGE_DEFAULTS,
    NothingToModulate,
    build_coordinates,
    build_modulation,
    keep_neighbours,
    sentence_scores,
)

TEN = torch.arange(10, 0, -1).double()


def scores(relevance: torch.Tensor, k: int = 3, temperature: float = 1.0, low: float = 0.2) -> list[float]:
    return sentence_scores(relevance, k, temperature, low).tolist()


@pytest.mark.parametrize("temperature", [0.25, 1.0, 2.0, 10.0])
@pytest.mark.parametrize("k", [1, 3, 9])
def test_a_score_is_the_rescaled_sigmoid_of_the_rank(k: int, temperature: float) -> None:
    raw = [1 / (1 + math.exp(-(k - 0.5 - rank) / temperature)) for rank in range(10)]
    expected = [0.2 + 0.8 * (f - raw[-1]) / (raw[0] - raw[-1]) for f in raw]
    assert scores(TEN, k, temperature) == pytest.approx(expected, abs=1e-12)


def test_only_the_order_of_the_sentences_counts() -> None:
    assert scores(torch.tensor([5.0, -1.0, 3.0])) == scores(torch.tensor([1000.0, 0.0, 0.001]))


def test_ties_keep_document_order() -> None:
    assert scores(torch.tensor([1.0, 2.0, 1.0, 2.0])) == [scores(TEN[:4])[rank] for rank in (2, 0, 3, 1)]


@pytest.mark.parametrize("k", [1, 4, 9])
def test_temperature_0_is_a_hard_cut(k: int) -> None:
    assert scores(TEN, k, 0) == pytest.approx([1.0] * k + [0.2] * (10 - k), abs=1e-15)


@pytest.mark.parametrize("k", [10, 11, 10**30, 10**400])
def test_a_hard_cut_behind_the_last_sentence_scores_all_1(k: int) -> None:
    assert scores(TEN, k, 0) == [1.0] * 10


@pytest.mark.parametrize("temperature", [0, 1e-3, 1.0])
def test_one_sentence_scores_1(temperature: float) -> None:
    assert scores(torch.tensor([0.3]), 1, temperature) == [1.0]


@pytest.mark.parametrize("temperature", [5e-324, 1e-12, 0.01, 1.0, 1e6, 1e300, sys.float_info.max])
@pytest.mark.parametrize("k", [1, 5, 10, 1000, 10**18, 10**400])
@pytest.mark.parametrize("sentences", [2, 10, 3000])
def test_scores_fall_from_1_at_the_top(sentences: int, k: int, temperature: float) -> None:
    found = torch.tensor(scores(torch.arange(sentences, 0, -1), k, temperature), dtype=torch.float64)
    assert torch.isfinite(found).all()
    assert found[0] == 1.0
    assert found[-1] in (0.2, 1.0)
    assert (found.diff() <= 1e-15).all()


def test_scores_are_all_1_where_the_sigmoids_are_all_1() -> None:
    assert scores(TEN, 1000, 0.5) == [1.0] * 10


@given(
    relevance=st.lists(st.floats(-5, 5), min_size=2, max_size=40),
    k=st.integers(1, 50),
    temperature=st.floats(0, 20),
    low=st.floats(0, 1, exclude_max=True),
)
def test_scores_lie_between_score_low_and_1(
    relevance: list[float], k: int, temperature: float, low: float
) -> None:
    found = sentence_scores(torch.tensor(relevance, dtype=torch.float64), k, temperature, low)
    assert found.dtype == torch.float64
    assert found.max() == 1.0
    assert found.min() >= low


SPANS = [(5, 9), (9, 12), (14, 20), (20, 21)]
HARD = dataclasses.replace(PACKAGE_DEFAULTS, k_broad=2, t_broad=0, k_sharp=1, t_sharp=0)


def segments(relevance: list[float], spans: list[tuple[int, int]] = SPANS) -> list[tuple[int, float, float]]:
    modulation, _ = build_modulation(relevance, spans, 30, HARD)
    return list(zip(modulation.starts, modulation.broad, modulation.sharp, strict=True))


def test_tokens_outside_sentences_and_before_the_first_relevant_one_score_1() -> None:
    low = HARD.score_low
    assert segments([0.0, 3.0, 1.0, 2.0]) == [
        (0, 1.0, 1.0),  # the first sentence is protected, the second relevant
        (14, low, low),
        (20, 1.0, low),
        (21, 1.0, 1.0),
    ]


def test_each_map_protects_up_to_its_own_first_relevant_sentence() -> None:
    low = HARD.score_low
    _, found = build_modulation([2.0, 0.0, 1.0, 3.0], SPANS, 30, HARD)
    assert found.protected_until == (5, 20)
    assert segments([2.0, 0.0, 1.0, 3.0]) == [
        (0, 1.0, 1.0),
        (9, low, 1.0),
        (12, 1.0, 1.0),  # the gap between two sentences
        (14, low, 1.0),
        (20, 1.0, 1.0),
    ]


def test_a_sentence_is_relevant_from_the_middle_score_on() -> None:
    config = dataclasses.replace(PACKAGE_DEFAULTS, k_broad=3, t_broad=1, k_sharp=2, t_sharp=1)
    _, found = build_modulation([1.0, 3.0, 2.0, 4.0], SPANS, 30, config)
    for values, until in zip(found.scores, found.protected_until, strict=True):
        relevant = [start for (start, _), s in zip(SPANS, values.tolist(), strict=True) if s >= 0.65]
        assert until == relevant[0]


def test_without_the_protected_prefix_every_sentence_has_its_own_score() -> None:
    low, relevance = HARD.score_low, [0.0, 3.0, 1.0, 2.0]
    modulation, found = build_modulation(relevance, SPANS, 30, HARD, "no_prefix")
    assert found.protected_until == (0, 0)
    assert list(zip(modulation.starts, modulation.broad, modulation.sharp, strict=True)) == [
        (0, 1.0, 1.0),  # no sentence
        (5, low, low),
        (9, 1.0, 1.0),
        (14, low, low),
        (20, 1.0, low),
        (21, 1.0, 1.0),
    ]


def test_with_one_map_all_layers_go_by_the_sharp_one() -> None:
    relevance = [0.0, 3.0, 1.0, 2.0]
    whole, _ = build_modulation(relevance, SPANS, 30, HARD)
    modulation, found = build_modulation(relevance, SPANS, 30, HARD, "one_map")
    assert modulation.broad == modulation.sharp
    assert set(zip(modulation.starts, modulation.sharp, strict=True)) <= set(
        zip(whole.starts, whole.sharp, strict=True)
    )
    assert torch.equal(*found.scores)


def test_the_last_sentences_before_the_question_can_be_kept() -> None:
    count, length = 12, 20
    spans = [(length * at, length * (at + 1)) for at in range(count)]
    relevance = [float(at == 0) for at in range(count)]
    modulation, _ = build_modulation(relevance, spans, 300, HARD, "keep_last")
    scores = dict(zip(modulation.starts, modulation.sharp, strict=True))
    # The first that ends within 64 tokens of the last one's end.
    assert (scores[spans[1][0]], scores[spans[8][0]]) == (HARD.score_low, 1.0)
    assert max(scores) == spans[8][0]


def test_each_sentences_first_token_can_be_kept() -> None:
    spans, low = [(0, 5), (5, 6), (6, 12)], HARD.score_low
    modulation, _ = build_modulation(
        [1.0, 0.0, -1.0], spans, 12, dataclasses.replace(HARD, k_sharp=1), "keep_starts"
    )
    found = dict(zip(modulation.starts, modulation.sharp, strict=True))
    assert found == {0: 1.0, 5: low, 6: 1.0, 7: low, 12: 1.0}


@pytest.mark.parametrize("field", ["t_broad", "t_sharp", "anchor_ratio", "gate_width"])
def test_a_setting_may_be_a_whole_number_of_any_length(field: str) -> None:
    whole, real = ({field: value} for value in (10**300, 1e300))
    found, expected = (
        build_coordinates(
            [1.0, 2.0, 3.0, 0.0], SPANS, 30, Profile.rope(1e4, 8), PACKAGE_DEFAULTS.resolve(given)
        ).positions("sharp", range(40))
        for given in (whole, real)
    )
    assert torch.equal(found, expected)


def test_a_document_that_starts_with_its_evidence_has_no_protected_prefix() -> None:
    coordinates = build_coordinates([2.0, 1.0], [(0, 4), (4, 9)], 9, Profile.rope(1e4, 8), HARD)
    assert coordinates.protected_prefix == 0
    assert coordinates.positions("sharp", [0]).tolist() == [[0.0] * 4]


@pytest.mark.parametrize(
    ("relevance", "reason"),
    [
        ([], "too_few_sentences"),
        ([1.0], "too_few_sentences"),
        ([0.5, 0.5], "equal_relevance"),
        ([0.0, -0.0, 0.0], "equal_relevance"),
    ],
)
def test_nothing_to_modulate_has_a_reason(relevance: list[float], reason: str) -> None:
    with pytest.raises(NothingToModulate) as found:
        build_modulation(relevance, SPANS[: len(relevance)], 30, PACKAGE_DEFAULTS)
    assert found.value.reason == reason


def test_the_anchor_is_a_share_of_the_prompt_and_stays_finite() -> None:
    for ratio, expected in ((0.25, 7.5), (1e308, sys.float_info.max), (10**308, sys.float_info.max)):
        config = dataclasses.replace(HARD, anchor_ratio=ratio)
        assert build_modulation([1.0, 2.0], SPANS[:2], 30, config)[0].anchor_length == expected


def test_sentences_and_spans_must_be_equally_many() -> None:
    with pytest.raises(ValueError, match="zip"):
        build_modulation([1.0, 2.0, 3.0], SPANS[:2], 30, PACKAGE_DEFAULTS)


def test_neighbours_of_a_relevant_sentence_are_kept_with_it() -> None:
    relevance = [1.0, 0.0, 0.5, 9.0, 0.4, 0.2]
    spans = [(4 * index, 4 * index + 4) for index in range(6)]
    _, alone = build_modulation(relevance, spans, 30, HARD)
    _, found = build_modulation(relevance, spans, 30, HARD, neighbours=1)
    kept = [[score == 1 for score in scores.tolist()] for scores in (*alone.scores, *found.scores)]
    assert kept == [
        [True, False, False, True, False, False],
        [False, False, False, True, False, False],
        [True, True, True, True, True, False],
        [False, False, True, True, True, False],
    ]
    assert (alone.protected_until, found.protected_until) == ((0, 12), (0, 8))


def test_neighbours_of_what_is_not_relevant_are_let_alone() -> None:
    scores = torch.tensor([1.0, 0.3, 0.3, 0.6, 0.3], dtype=torch.float64)
    assert keep_neighbours(scores, 1, 0.3).tolist() == [1.0, 1.0, 0.3, 0.6, 0.3]
    assert keep_neighbours(scores, 99, 0.3).tolist() == [1.0] * 5
    assert keep_neighbours(scores, 0, 0.3) is scores
