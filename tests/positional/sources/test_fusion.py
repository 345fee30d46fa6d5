"""Several sources' relevance made one."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from positional.relevance import rank, standardise
from positional.sources.contract import Reading, SourceName
from positional.sources.fusion import Choice, Fusion, fuse, mean_ranks


def _reading(source: SourceName, *values: float) -> Reading:
    return Reading(source, standardise(torch.tensor(values)[:, None]), 0.0)


def test_one_reading_is_handed_on_as_it_is() -> None:
    reading = _reading("lexical", 3, 1, 2)
    assert fuse([reading], Choice((("lexical", 2.0),), "rank")) is reading.z


def test_the_sum_is_of_the_weighted_relevance_standardised() -> None:
    heads, lexical = _reading("heads", 3, 1, 2), _reading("lexical", 0, 5, 1)
    z = fuse([heads, lexical], Choice((("heads", 2.0), ("lexical", 0.5))))
    expected = standardise((2 * heads.z + 0.5 * lexical.z)[:, None])
    assert z.tolist() == pytest.approx(expected.tolist())


def test_the_rank_rule_ignores_how_far_sentences_lie_apart() -> None:
    choice = Choice((("heads", 1.0), ("lexical", 1.0)), "rank")
    near = fuse([_reading("heads", 3, 1, 2), _reading("lexical", 1, 9, 2)], choice)
    far = fuse([_reading("heads", 300, 1, 2), _reading("lexical", 1, 99, 2)], choice)
    assert near.tolist() == far.tolist()


def test_ranks_are_summed_as_reciprocals() -> None:
    z = fuse(
        [_reading("heads", 3, 1, 2), _reading("lexical", 1, 9, 2)],
        Choice((("heads", 1.0), ("lexical", 3.0)), "rank"),
    )
    sums = torch.tensor([1 / 61 + 3 / 63, 1 / 63 + 3 / 61, 1 / 62 + 3 / 62], dtype=torch.float64)
    assert z.tolist() == pytest.approx(standardise(sums[:, None]).tolist())


def test_equal_sentences_share_their_mean_rank() -> None:
    assert mean_ranks(torch.tensor([0.0, 5.0, 0.0, 0.0, 7.0])).tolist() == [4, 2, 4, 4, 1]


@pytest.mark.parametrize("rule", ["sum", "rank"])
def test_a_source_that_tells_nothing_changes_no_order(rule: Fusion) -> None:
    heads = _reading("heads", 0.2, 3, 1, 2)
    z = fuse([heads, _reading("lexical", 0, 0, 0, 0)], Choice((("heads", 1.0), ("lexical", 1.0)), rule))
    assert rank(z).tolist() == rank(heads.z).tolist()


@settings(max_examples=100)
@given(st.lists(st.tuples(st.floats(-9, 9), st.floats(-9, 9)), min_size=2, max_size=9), st.data())
def test_a_sentence_that_all_sources_prefer_stays_before(
    pairs: list[tuple[float, float]], data: st.DataObject
) -> None:
    rule: Fusion = data.draw(st.sampled_from(["sum", "rank"]))
    heads = _reading("heads", *(first for first, _ in pairs))
    lexical = _reading("lexical", *(second for _, second in pairs))
    z = fuse([heads, lexical], Choice((("heads", 1.0), ("lexical", 1.0)), rule))
    for i in range(len(pairs)):
        for j in range(len(pairs)):
            if heads.z[i] > heads.z[j] and lexical.z[i] > lexical.z[j]:
                assert z[i] > z[j] - 1e-12


def test_a_choice_is_named_by_its_only_source() -> None:
    assert Choice((("lexical", 1.0),)).name == "lexical"
    both = Choice((("heads", 1.0), ("lexical", 1.0)))
    assert (both.name, both.sources) == ("fused", ("heads", "lexical"))
