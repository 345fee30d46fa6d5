"""Masks: what a query reads follows from absolute positions alone."""

from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from transformers.masking_utils import chunked_overlay, sliding_window_causal_mask_function

from positional.masks import MaskError, causal, in_chunk, in_window, same_document, tokens_seen, visible

positions = st.lists(st.integers(0, 300), min_size=1, max_size=12).map(torch.tensor)
kinds = st.fixed_dictionaries({}, optional={"window": st.integers(1, 40), "chunk": st.integers(1, 40)})
RANGE = torch.arange(40)


def test_a_query_reads_itself_and_what_stands_before_it() -> None:
    assert causal(torch.arange(3), torch.arange(3)).tolist() == [
        [True, False, False],
        [True, True, False],
        [True, True, True],
    ]


def test_a_window_counts_the_query_itself() -> None:
    mask = visible(torch.tensor([5]), torch.arange(8), window=3)
    assert mask[0].nonzero()[:, 0].tolist() == [3, 4, 5]


@pytest.mark.parametrize("seen", [1, 2, 39, 40, 41])
def test_windows_are_those_of_transformers(seen: int) -> None:
    theirs = sliding_window_causal_mask_function(seen)
    assert torch.equal(visible(RANGE, RANGE, window=seen), theirs(0, 0, RANGE[:, None], RANGE[None, :]))


@pytest.mark.parametrize("size", [1, 7, 40])
def test_chunks_are_those_of_transformers(size: int) -> None:
    theirs = chunked_overlay(size, torch.tensor([0]))
    assert torch.equal(in_chunk(RANGE, RANGE, size), theirs(0, 0, RANGE[:, None], RANGE[None, :]))


@pytest.mark.parametrize(
    ("model_type", "seen"), [("cohere2", 4097), ("gemma3_text", 4096), ("exaone4", 4096)]
)
def test_cohere_2_sees_one_token_more_than_its_config_says(model_type: str, seen: int) -> None:
    assert tokens_seen(model_type, 4096) == seen


def test_the_first_token_stays_visible_to_global_layers_only() -> None:
    """vllm#11357, vllm#11583: a missing window became one of 4096 on global layers."""
    query, keys = torch.tensor([100_000]), torch.arange(100_001)
    assert visible(query, keys).all()
    assert visible(query, keys, window=4096).sum() == 4096
    assert not visible(query, keys, window=4096)[0, 0]


def test_a_decoded_token_reads_all_cached_keys_not_the_corner_of_a_triangle() -> None:
    assert causal(torch.tensor([4]), torch.arange(5)).tolist() == [[True] * 5]
    assert torch.ones(1, 5).tril().sum() == 1


@given(positions, positions, kinds)
def test_a_part_of_a_sequence_has_its_part_of_the_mask(
    queries: torch.Tensor, keys: torch.Tensor, kind: dict[str, int]
) -> None:
    whole = visible(torch.arange(301), torch.arange(301), **kind)
    assert torch.equal(visible(queries, keys, **kind), whole[queries][:, keys])


@given(positions, positions, st.integers(1, 40), st.sampled_from([1, 100, 8192, 1 << 20]))
def test_a_common_shift_changes_no_visibility(
    queries: torch.Tensor, keys: torch.Tensor, seen: int, shift: int
) -> None:
    assert torch.equal(visible(queries + shift, keys + shift), visible(queries, keys))
    moved = visible(queries + shift, keys + shift, window=seen)
    assert torch.equal(moved, visible(queries, keys, window=seen))


@given(positions, kinds, st.data())
def test_layers_of_every_kind_stay_causal_and_in_their_document(
    tokens: torch.Tensor, kind: dict[str, int], data: Any
) -> None:
    number = st.lists(st.integers(0, 2), min_size=len(tokens), max_size=len(tokens))
    documents = torch.tensor(data.draw(number))
    mask = visible(tokens, tokens, documents=(documents, documents), **kind)
    assert not (mask & ~causal(tokens, tokens)).any()
    assert not (mask & ~same_document(documents, documents)).any()
    assert mask.diagonal().all()


def test_positions_that_begin_anew_in_each_document_see_the_same() -> None:
    documents = torch.tensor([0] * 5 + [1] * 4)
    anew = torch.tensor([0, 1, 2, 3, 4, 0, 1, 2, 3])
    for window in (None, 1, 3):
        packed = visible(torch.arange(9), torch.arange(9), window=window, documents=(documents, documents))
        assert torch.equal(visible(anew, anew, window=window, documents=(documents, documents)), packed)


@pytest.mark.parametrize("seen", [1, 3, 17])
def test_a_window_is_full_once_there_are_tokens_enough(seen: int) -> None:
    counts = visible(RANGE, RANGE, window=seen).sum(dim=1)
    assert counts.tolist() == [min(index + 1, seen) for index in range(40)]


@pytest.mark.parametrize("field", ["window", "chunk"])
@pytest.mark.parametrize("value", [0, -1, True])
def test_a_mask_of_no_tokens_is_refused(field: str, value: int) -> None:
    with pytest.raises(MaskError, match=f"{field}: must be at least 1 token") as error:
        visible(RANGE, RANGE, **{field: value})
    assert (error.value.field, error.value.value) == (field, value)


def test_no_model_has_a_window_of_no_tokens() -> None:
    with pytest.raises(MaskError, match="sliding_window"):
        tokens_seen("cohere2", 0)


def test_documents_must_number_every_token() -> None:
    with pytest.raises(MaskError, match="must number 40 queries and 2 keys"):
        visible(RANGE, RANGE[:2], documents=(RANGE, RANGE))


def test_a_window_alone_hides_nothing_that_comes_later() -> None:
    assert in_window(torch.tensor([0]), torch.arange(9), 1).all()
