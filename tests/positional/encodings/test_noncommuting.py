"""Turns that do not commute: their product is not relative, the exponential of their sum is."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from positional.encodings.contract import EncodingError
from positional.encodings.noncommuting import OrderedProduct
from positional.encodings.rank_two import RankTwo
from tests.support.exponential import exponential

WIDTH = 6
SEEDS = st.integers(0, 10_000)
POSITIONS = st.floats(-100, 100)


def normal(seed: int, *shape: int) -> torch.Tensor:
    return torch.randn(shape, dtype=torch.float64, generator=torch.Generator().manual_seed(seed))


def product(seed: int, factors: int = 2) -> OrderedProduct:
    unit = normal(seed, factors, 2, WIDTH)
    return OrderedProduct(tuple(RankTwo(a, b, 0.1) for a, b in unit))


def at(position: float) -> torch.Tensor:
    return torch.tensor(position, dtype=torch.float64)


@given(SEEDS, POSITIONS, st.integers(1, 3))
def test_it_is_the_product_of_exponentials_in_its_order(seed: int, position: float, factors: int) -> None:
    grape, vector = product(seed, factors), normal(seed + 1, WIDTH)
    exact = vector
    for generator in reversed(grape.generators):
        exact = exponential(position * generator) @ exact
    torch.testing.assert_close(grape.rotate(vector, at(position)), exact, rtol=0, atol=1e-11)
    assert float(grape.rotate(vector, at(position)).norm()) == pytest.approx(float(vector.norm()), rel=1e-13)


def test_planes_that_cross_do_not_commute_and_their_scores_are_not_relative() -> None:
    grape, (query, key) = product(1), normal(2, 2, WIDTH)
    assert not grape.commute
    assert (grape.contract.relative, grape.contract.servable) == ("no", False)
    assert abs(float(grape.score(query, key, at(7), at(2)) - grape.score(query, key, at(12), at(7)))) > 0.1
    swapped = OrderedProduct(grape.factors[::-1])
    assert float((grape.rotate(query, at(3)) - swapped.rotate(query, at(3))).norm()) > 0.1


@given(SEEDS, POSITIONS, POSITIONS, POSITIONS)
def test_one_generator_of_their_sum_is_relative_and_is_its_exponential(
    seed: int, i: float, j: float, shift: float
) -> None:
    grape, (query, key) = product(seed, 3), normal(seed + 1, 2, WIDTH)
    summed = grape.summed()
    exact = exponential(at(j) * grape.generators.sum(0)) @ key
    torch.testing.assert_close(summed.rotate(key, at(j)), exact, rtol=0, atol=1e-10)
    score = float(summed.score(query, key, at(i), at(j)))
    assert score == pytest.approx(float(summed.score(query, key, at(i + shift), at(j + shift))), abs=1e-9)


@given(SEEDS, POSITIONS)
def test_orthogonal_planes_and_equal_planes_commute_and_lose_nothing(seed: int, position: float) -> None:
    basis, vector = torch.linalg.qr(normal(seed, WIDTH, WIDTH))[0].T, normal(seed + 1, WIDTH)
    factors = (
        RankTwo(basis[0], basis[1], 0.3),
        RankTwo(basis[2], basis[3] + basis[2], -0.2),
        RankTwo(basis[0] + basis[1], 2 * basis[1], 0.1),
    )
    grape = OrderedProduct(factors)
    assert grape.commute
    assert grape.contract.relative == "exact"
    torch.testing.assert_close(
        grape.rotate(vector, at(position)), grape.summed().rotate(vector, at(position)), rtol=0, atol=1e-11
    )


def test_a_product_of_nothing_or_of_several_widths_is_refused() -> None:
    narrow = RankTwo(*normal(1, 2, 3))
    for factors in ((), (narrow, RankTwo(*normal(1, 2, 4))), (RankTwo(*normal(1, 2, 2, 3)),)):
        with pytest.raises(EncodingError, match="factors"):
            OrderedProduct(factors)
