"""The unipotent groups of additive GRAPE against matrices that torch exponentiates and decomposes."""

from collections.abc import Callable

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from positional.encodings.contract import EncodingError
from positional.encodings.unipotent import Nilpotent, dictionary, key_gate, pair, query_gate
from tests.support.draws import normal

amounts = st.floats(-100, 100, allow_subnormal=False)
seeds = st.integers(0, 2**32 - 1)

WIDTH = 6

RANK_ONE: dict[str, Callable[[torch.Tensor], Nilpotent]] = {
    "a pair in d + 2": lambda _: pair(WIDTH, reads=WIDTH - 2, writes=WIDTH - 1),
    "a key's gate in d + 1": lambda direction: key_gate(direction, WIDTH, reads=WIDTH - 1),
    "a query's gate in d + 1": lambda direction: query_gate(direction, WIDTH, writes=WIDTH - 1),
}
ALL = RANK_ONE | {
    "a dictionary in d + 2": lambda direction: dictionary(
        [key_gate(direction[:4], WIDTH, reads=4), pair(WIDTH, reads=4, writes=5)], [0.5, -2.0]
    ),
}


def matrix(generator: Nilpotent) -> torch.Tensor:
    return generator.left @ generator.right.T


def exponential(generator: Nilpotent, amount: float) -> torch.Tensor:
    return torch.linalg.matrix_exp(amount * matrix(generator))


def number(value: float) -> torch.Tensor:
    return torch.tensor(value, dtype=torch.float64)


@pytest.mark.parametrize("name", ALL)
@given(amount=amounts, seed=seeds)
def test_acting_is_multiplying_by_the_matrix_exponential(name: str, amount: float, seed: int) -> None:
    generator, vector = ALL[name](normal(seed, WIDTH - 1)), normal(seed + 1, WIDTH)
    lifted = generator.act(vector, number(amount))
    torch.testing.assert_close(lifted, exponential(generator, amount) @ vector, rtol=1e-12, atol=1e-10)


@pytest.mark.parametrize("name", ALL)
@given(amount=amounts, seed=seeds)
def test_acting_inversely_is_multiplying_by_the_inverse_transpose(
    name: str, amount: float, seed: int
) -> None:
    generator, vector = ALL[name](normal(seed, WIDTH - 1)), normal(seed + 1, WIDTH)
    lifted = generator.act_inversely(vector, number(amount))
    inverse = torch.linalg.inv(exponential(generator, amount)).T
    torch.testing.assert_close(lifted, inverse @ vector, rtol=1e-9, atol=1e-7)


@pytest.mark.parametrize("name", ALL)
@given(first=amounts, second=amounts, seed=seeds)
def test_amounts_add_up(name: str, first: float, second: float, seed: int) -> None:
    generator, vector = ALL[name](normal(seed, WIDTH - 1)), normal(seed + 1, WIDTH)
    one, other, both = number(first), number(second), number(first + second)
    for act in (generator.act, generator.act_inversely):
        torch.testing.assert_close(act(act(vector, one), other), act(vector, both), rtol=1e-12, atol=1e-10)


@pytest.mark.parametrize("name", ALL)
@given(query_amount=amounts, key_amount=amounts, seed=seeds)
def test_a_product_depends_on_the_difference_of_amounts_alone(
    name: str, query_amount: float, key_amount: float, seed: int
) -> None:
    generator = ALL[name](normal(seed, WIDTH - 1))
    query, key = normal(seed + 1, WIDTH), normal(seed + 2, WIDTH)
    product = generator.act(query, number(query_amount)) @ generator.act_inversely(key, number(key_amount))
    moved = generator.act(query, number(query_amount - key_amount)) @ key
    torch.testing.assert_close(product, moved, rtol=1e-10, atol=1e-9)


@given(amount=st.floats(1, 100), seed=seeds)
def test_against_the_inverse_without_the_transpose_it_does_not(amount: float, seed: int) -> None:
    generator = RANK_ONE["a key's gate in d + 1"](normal(seed, WIDTH - 1))
    query, key = normal(seed + 1, WIDTH), normal(seed + 2, WIDTH)
    product = generator.act(query, number(amount)) @ generator.act(key, number(-amount))
    assert (product - query @ key).abs() > 1e-6


@pytest.mark.parametrize("name", ALL)
@given(amount=amounts, seed=seeds)
def test_all_eigenvalues_are_1_and_volumes_stay(name: str, amount: float, seed: int) -> None:
    explicit = exponential(ALL[name](normal(seed, WIDTH - 1)), amount)
    step = explicit - torch.eye(WIDTH, dtype=torch.float64)
    assert (step @ step).abs().max() <= 1e-9
    assert torch.linalg.det(explicit).item() == pytest.approx(1, abs=1e-9)
    # Eigenvalues of a Jordan block are known to the root of the precision only.
    assert (torch.linalg.eigvals(explicit) - 1).abs().max() <= 1e-5


@pytest.mark.parametrize("name", RANK_ONE)
@given(amount=amounts, seed=seeds)
def test_two_singular_values_differ_from_1_as_the_paper_says(name: str, amount: float, seed: int) -> None:
    generator = RANK_ONE[name](normal(seed, WIDTH - 1))
    values = torch.linalg.svdvals(exponential(generator, amount))
    s = abs(amount) * torch.linalg.matrix_norm(matrix(generator), ord=2).item()
    # GRAPE, eq. J.1: √(1 + s²/2 ± |s|√(1 + s²/4)), of which one is the other's reciprocal.
    largest = (1 + s * s / 2 + s * (1 + s * s / 4) ** 0.5) ** 0.5
    expected = [largest, *[1.0] * (WIDTH - 2), 1 / largest]
    assert values.tolist() == pytest.approx(expected, rel=1e-9, abs=1e-12)


@given(weights=st.lists(amounts, min_size=3, max_size=3), seed=seeds)
def test_a_dictionarys_biases_add(weights: list[float], seed: int) -> None:
    gates = normal(seed, 2, 4)
    parts = [
        key_gate(gates[0], 7, reads=4),
        key_gate(gates[1], 7, reads=5),
        pair(7, reads=4, writes=6),
    ]
    query, key = normal(seed + 1, 7), normal(seed + 2, 7)
    together = dictionary(parts, weights).act(query, number(1.0)) @ key
    scores = [part.act(query, number(each)) @ key for part, each in zip(parts, weights, strict=True)]
    apart = sum(score - query @ key for score in scores)
    torch.testing.assert_close(together - query @ key, number(float(apart)), rtol=1e-10, atol=1e-9)


def test_gates_of_query_and_key_in_one_coordinate_are_no_dictionary() -> None:
    gate = torch.ones(4, dtype=torch.float64)
    key, query = key_gate(gate, 5, reads=4), query_gate(gate, 5, writes=4)
    with pytest.raises(EncodingError, match="rightᵀ · left must be 0"):
        dictionary([key, query], [1.0, 1.0])


def test_gates_of_query_and_key_in_two_coordinates_are_one_only_where_they_are_orthogonal() -> None:
    gates = torch.tensor([[1.0, 2, 0, 0], [2.0, -1, 5, 0], [1.0, 0, 0, 0]], dtype=torch.float64)
    key, orthogonal, other = (
        key_gate(gates[0], 6, reads=4),
        query_gate(gates[1], 6, writes=5),
        query_gate(gates[2], 6, writes=5),
    )
    step = matrix(dictionary([key, orthogonal], [1.0, 1.0]))
    assert (step @ step).eq(0).all()
    with pytest.raises(EncodingError, match="rightᵀ · left must be 0"):
        dictionary([key, other], [1.0, 1.0])


def test_what_is_not_nilpotent_is_refused() -> None:
    with pytest.raises(EncodingError, match="rightᵀ · left must be 0"):
        pair(4, reads=2, writes=2)
    with pytest.raises(EncodingError, match="rightᵀ · left must be 0"):
        key_gate(torch.full((3,), torch.nan, dtype=torch.float64), 4, reads=3)
    with pytest.raises(EncodingError, match="must both be of"):
        Nilpotent(torch.ones(4, 1), torch.ones(3, 1))
