"""Relevance: eq. 4 and 5, silent tokens, heads without spread, ranks."""

import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from positional.relevance import head_signal, rank, sentence_signal, standardise

INFINITE = -math.inf


def test_a_tokens_signal_is_its_strongest_scaled_product_with_a_query_row() -> None:
    queries = torch.tensor([[1.0, 0.0, 0.0, 2.0], [0.0, 3.0, 0.0, 0.0]])
    keys = torch.tensor([[4.0, 0.0, 9.0, 1.0], [0.0, -2.0, 9.0, -1.0], [2.0, 2.0, 9.0, 0.0]])
    # Products: (6, 0), (-2, -6), (2, 6); width 4, so they are halved.
    assert head_signal(queries, keys).tolist() == [3.0, -1.0, 3.0]


SIGNAL = torch.tensor([9.0, 1.0, 5.0, 2.0, 9.0, 4.0, 3.0, 9.0])
SPANS = torch.tensor([[1, 4], [5, 7]])


def silent(*tokens: int) -> torch.Tensor:
    return torch.isin(torch.arange(8), torch.tensor(tokens, dtype=torch.int64))


@pytest.mark.parametrize(
    ("silenced", "expected"),
    [
        ((), [5.0, 4.0]),
        ((2,), [2.0, 4.0]),
        ((0, 4, 7), [5.0, 4.0]),
        ((5, 6), [5.0, INFINITE]),
        ((1, 2, 3, 5, 6), [INFINITE, INFINITE]),
    ],
)
def test_a_sentences_signal_is_that_of_its_loudest_token(
    silenced: tuple[int, ...], expected: list[float]
) -> None:
    # Tokens 0, 4 and 7 are the loudest of all, and belong to no sentence.
    assert sentence_signal(SIGNAL, SPANS, silent(*silenced)).tolist() == expected


def test_sentences_may_touch_and_cover_everything() -> None:
    spans = torch.tensor([[0, 3], [3, 4], [4, 8]])
    assert sentence_signal(SIGNAL, spans, silent()).tolist() == [9.0, 2.0, 9.0]


def test_z_is_the_mean_over_heads_of_population_standard_scores() -> None:
    signals = torch.tensor([[1.0, 10.0], [2.0, 10.0], [3.0, 40.0]])
    one = math.sqrt(2 / 3)
    two = math.sqrt(200.0)
    expected = [(-1 / one - 10 / two) / 2, (0 - 10 / two) / 2, (1 / one + 20 / two) / 2]
    found = standardise(signals)
    assert found.dtype == torch.float64
    assert found.tolist() == pytest.approx(expected, abs=1e-12)


def test_a_sentence_of_silent_tokens_counts_as_the_heads_weakest() -> None:
    heard = standardise(torch.tensor([[1.0], [5.0], [1.0], [2.0]]))
    assert standardise(torch.tensor([[1.0], [5.0], [INFINITE], [2.0]])).tolist() == heard.tolist()


@pytest.mark.parametrize("value", [0.1, 0.3, 1e-30, -7.7, 1e30, INFINITE])
@pytest.mark.parametrize("sentences", [2, 3, 7, 1000])
def test_a_head_without_spread_contributes_nothing(value: float, sentences: int) -> None:
    other = torch.arange(sentences, dtype=torch.float64)
    flat = torch.full((sentences,), value, dtype=torch.float64)
    both = standardise(torch.stack((other, flat), dim=1))
    assert both.tolist() == (standardise(other[:, None]) / 2).tolist()
    assert standardise(flat[:, None]).tolist() == [0.0] * sentences


def test_heads_that_all_lack_spread_leave_all_equal() -> None:
    assert standardise(torch.tensor([[0.1, INFINITE]] * 3)).tolist() == [0.0] * 3


@given(st.lists(st.integers(-800, 800).map(lambda eighths: eighths / 8), min_size=2, max_size=30))
def test_one_head_keeps_its_own_order(signal: list[float]) -> None:
    z = standardise(torch.tensor(signal)[:, None])
    assert torch.isfinite(z).all()
    assert rank(z).tolist() == rank(torch.tensor(signal)).tolist()


@pytest.mark.parametrize(
    ("relevance", "ranks"),
    [
        ([0.5, 2.0, -1.0], [1, 0, 2]),
        ([1.0, 1.0, 1.0], [0, 1, 2]),
        ([1.0, 2.0, 1.0, 2.0], [2, 0, 3, 1]),
        ([0.0, -0.0, 0.0], [0, 1, 2]),
        ([3.0], [0]),
    ],
)
def test_ranks_count_from_the_most_relevant_and_ties_keep_document_order(
    relevance: list[float], ranks: list[int]
) -> None:
    assert rank(torch.tensor(relevance)).tolist() == ranks


def test_many_ties_keep_document_order() -> None:
    assert rank(torch.zeros(5000)).tolist() == list(range(5000))
