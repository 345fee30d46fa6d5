"""Gated slopes against their formula, and what their gates promise."""

import math
from collections.abc import Callable

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from positional.encodings.alibi import Alibi
from positional.encodings.contract import EncodingError
from positional.encodings.gated_slope import GatedSlope
from positional.encodings.unipotent import dictionary, pair
from tests.support.draws import normal

seeds = st.integers(0, 2**32 - 1)
places = st.integers(0, 20_000)

WIDTH = 6
GATES: dict[str, Callable[[torch.Tensor], GatedSlope]] = {
    "query": lambda gates: GatedSlope(gates[0], None, frequency=0.5),
    "key": lambda gates: GatedSlope(None, gates[1], frequency=0.5),
    "both": lambda gates: GatedSlope(gates[0], gates[1], frequency=0.5),
}


@given(i=places, j=places, seed=seeds)
def test_a_bias_is_its_formula(i: int, j: int, seed: int) -> None:
    v, u, query, key = normal(seed, 4, WIDTH)
    root = math.sqrt(WIDTH)

    def softplus(read: torch.Tensor) -> float:
        return math.log1p(math.exp(read.item() / root))

    bias = (j - i) * 0.5 * (softplus(v @ query) + softplus(u @ key))
    score = GatedSlope(v, u, frequency=0.5).score(query, key, torch.tensor(i), torch.tensor(j))
    assert score.item() == pytest.approx((query @ key).item() + root * bias, rel=1e-12, abs=1e-10)


@pytest.mark.parametrize("gates", GATES)
@given(i=places, j=places, seed=seeds)
def test_a_lifted_product_is_the_direct_bias(gates: str, i: int, j: int, seed: int) -> None:
    directions, query, key = normal(seed, 2, WIDTH), normal(seed + 1, WIDTH), normal(seed + 2, WIDTH)
    encoding = GATES[gates](directions)
    # Each gate has a pair of coordinates of its own: there is no product between their generators.
    wide = WIDTH + 4
    lift = dictionary([pair(wide, WIDTH, WIDTH + 1), pair(wide, WIDTH + 2, WIDTH + 3)], [-1.0, -1.0])
    one, none = torch.ones(()).double(), torch.zeros(()).double()
    query_tail = torch.stack((encoding.query_slopes(query), none, one, none)) * WIDTH**0.25
    key_tail = torch.stack((none, one, none, encoding.key_slopes(key))) * WIDTH**0.25
    lifted_query = lift.act(torch.cat((query, query_tail)), torch.tensor(i).double())
    lifted_key = lift.act_inversely(torch.cat((key, key_tail)), torch.tensor(j).double())
    score = encoding.score(query, key, torch.tensor(i), torch.tensor(j))
    torch.testing.assert_close(lifted_query @ lifted_key, score, rtol=1e-12, atol=1e-8)


@pytest.mark.parametrize("gates", GATES)
@given(i=places, j=places, shift=places, seed=seeds)
def test_a_score_depends_on_the_displacement_alone(gates: str, i: int, j: int, shift: int, seed: int) -> None:
    encoding = GATES[gates](normal(seed, 2, WIDTH))
    query, key = normal(seed + 1, 2, WIDTH)
    here = encoding.score(query, key, torch.tensor(i), torch.tensor(j))
    there = encoding.score(query, key, torch.tensor(i + shift), torch.tensor(j + shift))
    assert here.item() == there.item()


@pytest.mark.parametrize("gates", GATES)
@given(distance=st.integers(1, 1000), seed=seeds)
def test_no_logit_grows_with_the_distance(gates: str, distance: int, seed: int) -> None:
    encoding = GATES[gates](normal(seed, 2, WIDTH))
    query, key = normal(seed + 1, 2, WIDTH)
    near, far = encoding.score(query, key, torch.tensor([1, distance + 1]), torch.tensor(0))
    assert far < near


def test_gates_that_are_shut_to_content_leave_alibi() -> None:
    query, key = normal(0, 2, WIDTH)
    encoding = GatedSlope(torch.zeros(WIDTH), None, frequency=0.25)
    i, j = torch.tensor(40), torch.arange(40)
    alibi = Alibi(0.25 * math.log(2)).score(query, key, i, j)
    torch.testing.assert_close(encoding.score(query, key, i, j), alibi, rtol=1e-12, atol=1e-12)


def test_a_key_holds_what_its_gates_need() -> None:
    gates = torch.ones(2, WIDTH)
    assert [GATES[name](gates).contract.extra_dimensions for name in GATES] == [4, 8, 12]


def test_what_cannot_be_is_refused() -> None:
    gate = torch.ones(4)
    with pytest.raises(EncodingError, match="one of them must be given"):
        GatedSlope(None, None)
    with pytest.raises(EncodingError, match="frequency: must be finite and not negative"):
        GatedSlope(gate, None, frequency=-1.0)
    with pytest.raises(EncodingError, match="link: must be one of softplus, identity"):
        GatedSlope(gate, None, link="relu")  # type: ignore[arg-type]
