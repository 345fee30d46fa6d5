"""ALiBi against its paper and the models of transformers that have it."""

import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from transformers.models.bloom.modeling_bloom import build_alibi_tensor as bloom_alibi
from transformers.models.falcon.modeling_falcon import build_alibi_tensor as falcon_alibi
from transformers.models.mpt.modeling_mpt import build_mpt_alibi_tensor

from positional.encodings.alibi import Alibi, alibi_slopes
from positional.encodings.contract import EncodingError
from positional.encodings.unipotent import pair
from tests.support.draws import normal

seeds = st.integers(0, 2**32 - 1)
places = st.integers(0, 20_000)


def test_slopes_of_eight_heads_are_the_papers() -> None:
    assert alibi_slopes(8).tolist() == [2.0**-power for power in range(1, 9)]


def test_slopes_of_other_counts_come_from_between() -> None:
    assert alibi_slopes(1).tolist() == [2.0**-8]
    assert alibi_slopes(3).tolist() == [2.0**-4, 2.0**-8, 2.0**-2]
    twelve = [*alibi_slopes(8).tolist(), *alibi_slopes(16)[0:8:2].tolist()]
    assert alibi_slopes(12).tolist() == pytest.approx(twelve, rel=1e-15)


@given(st.integers(1, 200))
def test_slopes_are_those_of_bloom_and_falcon(heads: int) -> None:
    visible = torch.ones(1, 4, dtype=torch.int64)
    distances = alibi_slopes(heads)[:, None] * torch.arange(4)
    # Falcon rounds its slopes to bf16.
    for build, precision in ((bloom_alibi, 1e-5), (falcon_alibi, 2**-7)):
        theirs = build(visible, heads, torch.float32).reshape(heads, 4)
        torch.testing.assert_close(theirs.double(), distances, rtol=precision, atol=0)


@given(power=st.integers(0, 6), length=st.integers(1, 40))
def test_a_bias_is_that_of_mpt(power: int, length: int) -> None:
    theirs = build_mpt_alibi_tensor(2**power, length)[:, 0].double()
    at = torch.arange(length)
    for slope, row in zip(alibi_slopes(2**power).tolist(), theirs, strict=True):
        torch.testing.assert_close(Alibi(slope).bias(at[-1], at), row, rtol=1e-6, atol=1e-6)


@given(i=places, j=places, slope=st.floats(1e-4, 2), seed=seeds)
def test_the_lifted_product_is_the_direct_bias(i: int, j: int, slope: float, seed: int) -> None:
    width = 8
    query, key = normal(seed, 2, width)
    lift = pair(width + 2, reads=width, writes=width + 1)
    # GRAPE, eq. 4.7: the generator is −slope · E, and the position what moves along it.
    amount = [torch.tensor(-slope * math.sqrt(width) * place, dtype=torch.float64) for place in (i, j)]
    one, none = torch.ones(1, dtype=torch.float64), torch.zeros(1, dtype=torch.float64)
    lifted_query = lift.act(torch.cat((query, one, none)), amount[0])
    lifted_key = lift.act_inversely(torch.cat((key, none, one)), amount[1])
    product = (lifted_query @ lifted_key).item() / math.sqrt(width)
    direct = (query @ key).item() / math.sqrt(width) - slope * (i - j)
    assert product == pytest.approx(direct, rel=1e-12, abs=1e-12 * slope * (i + j + 1))
    score = Alibi(slope).score(query, key, torch.tensor(i), torch.tensor(j)).item() / math.sqrt(width)
    assert score == pytest.approx(direct, rel=1e-12, abs=1e-12)


@given(i=places, j=places, shift=places, seed=seeds)
def test_a_score_depends_on_the_displacement_alone(i: int, j: int, shift: int, seed: int) -> None:
    query, key = normal(seed, 2, 8)
    encoding = Alibi(0.25)
    here = encoding.score(query, key, torch.tensor(i), torch.tensor(j))
    there = encoding.score(query, key, torch.tensor(i + shift), torch.tensor(j + shift))
    assert here.item() == there.item()


def test_what_is_farther_away_weighs_less() -> None:
    bias = Alibi(0.5).bias(torch.tensor(3), torch.arange(4))
    assert bias.tolist() == [-1.5, -1.0, -0.5, 0.0]


@pytest.mark.parametrize("slope", [0.0, -0.5, math.inf, math.nan])
def test_a_slope_that_does_not_fall_is_refused(slope: float) -> None:
    with pytest.raises(EncodingError, match="slope: must be positive and finite"):
        Alibi(slope)


def test_no_heads_have_no_slopes() -> None:
    with pytest.raises(EncodingError, match="heads: must be at least 1"):
        alibi_slopes(0)
