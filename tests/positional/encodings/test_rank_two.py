"""Multiplicative GRAPE of one plane: the laws of a one-parameter group, against a dense exponential."""

import math
from collections.abc import Sequence
from typing import Any, get_args

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch.utils._python_dispatch import TorchDispatchMode

from positional.encodings.contract import EncodingError
from positional.encodings.quarter_turn import quarter_turn
from positional.encodings.rank_two import RankTwo
from positional.phases import rotate, rotation_rows
from positional.profile import Pairing, Profile
from tests.support.exponential import exponential

PAIRINGS = pytest.mark.parametrize("pairing", get_args(Pairing))
WIDTHS = st.integers(1, 9)
SEEDS = st.integers(0, 10_000)
# How many positions of the fastest turn: angles of either sign, tiny to many turns.
TURNS = st.floats(-300, 300)
# From orthogonal vectors to vectors that differ in their thirteenth digit, and to parallel ones.
APARTNESS = st.sampled_from([1.0, 1e-2, 1e-5, 1e-9, 1e-13, 0.0])
SIZES = st.sampled_from([1e-6, 1e-2, 1.0, 30.0])


def normal(seed: int, *shape: int) -> torch.Tensor:
    return torch.randn(shape, dtype=torch.float64, generator=torch.Generator().manual_seed(seed))


def plane(seed: int, width: int, apart: float = 1.0, size: float = 1.0, omega: float = 1.0) -> RankTwo:
    a, other = normal(seed, 2, width)
    return RankTwo(size * a, a / size + apart * other, omega)


def generator(of: RankTwo) -> torch.Tensor:
    """ωL as a matrix."""
    return of.omega * (torch.outer(of.a, of.b) - torch.outer(of.b, of.a))


def at(position: float) -> torch.Tensor:
    return torch.tensor(position, dtype=torch.float64)


def for_angle(of: RankTwo, angle: float) -> torch.Tensor:
    """The position that `of` turns to by `angle`, or `angle` itself where it turns nothing."""
    rate = float(of.s) * abs(of.omega)
    return at(angle / rate if rate > 1e-20 else angle)


@given(SEEDS, WIDTHS, TURNS, APARTNESS, SIZES, st.sampled_from([-2.0, 1.0]))
def test_it_is_the_exponential_of_its_generator(
    seed: int, width: int, turns: float, apart: float, size: float, omega: float
) -> None:
    grape, vector = plane(seed, width, apart, size, omega), normal(seed + 1, width)
    # The dense exponential takes its generator's entries for exact: of nearly parallel vectors, or at far
    # positions, their rounding is a turn of its own.
    position = at(turns) / float(1 + grape.alpha + grape.beta)
    exact = exponential(position * generator(grape)) @ vector
    torch.testing.assert_close(grape.rotate(vector, position), exact, rtol=0, atol=1e-11)


@given(SEEDS, WIDTHS, TURNS, APARTNESS, SIZES)
def test_it_keeps_the_norm(seed: int, width: int, turns: float, apart: float, size: float) -> None:
    grape, vector = plane(seed, width, apart, size), normal(seed + 1, width)
    turned = grape.rotate(vector, for_angle(grape, turns))
    assert float(turned.norm()) == pytest.approx(float(vector.norm()), rel=1e-13)


@given(SEEDS, WIDTHS, TURNS, TURNS, APARTNESS)
def test_a_turn_after_a_turn_is_the_turn_of_their_sum(
    seed: int, width: int, first: float, second: float, apart: float
) -> None:
    grape, vector = plane(seed, width, apart), normal(seed + 1, width)
    s, t = for_angle(grape, first), for_angle(grape, second)
    torch.testing.assert_close(
        grape.rotate(grape.rotate(vector, t), s), grape.rotate(vector, s + t), rtol=0, atol=1e-11
    )


@given(SEEDS, WIDTHS, TURNS, APARTNESS)
def test_the_negative_position_is_the_inverse_and_the_transpose(
    seed: int, width: int, turns: float, apart: float
) -> None:
    grape, (x, y) = plane(seed, width, apart), normal(seed + 1, 2, width)
    position = for_angle(grape, turns)
    torch.testing.assert_close(grape.rotate(grape.rotate(x, position), -position), x, rtol=0, atol=1e-12)
    assert float(grape.rotate(x, position) @ y) == pytest.approx(
        float(x @ grape.rotate(y, -position)), abs=1e-12
    )
    assert torch.equal(RankTwo(grape.a, grape.b, -1.0).rotate(x, position), grape.rotate(x, -position))


@given(SEEDS, WIDTHS, TURNS, TURNS, TURNS)
def test_a_score_depends_on_the_displacement_alone(
    seed: int, width: int, query_turns: float, key_turns: float, shift: float
) -> None:
    grape, (query, key) = plane(seed, width), normal(seed + 1, 2, width)
    i, j, c = (for_angle(grape, turns) for turns in (query_turns, key_turns, shift))
    score = float(grape.score(query, key, i, j))
    assert score == pytest.approx(float(grape.score(query, key, i + c, j + c)), abs=1e-10)
    assert score == pytest.approx(float(query @ grape.rotate(key, j - i)), abs=1e-10)


def test_a_score_depends_on_the_displacement() -> None:
    grape, (query, key) = plane(3, 6), normal(4, 2, 6)
    assert abs(float(grape.score(query, key, at(5), at(2)) - grape.score(query, key, at(5), at(1)))) > 0.1
    # A transposed sign is the displacement's other direction.
    assert abs(float(grape.score(query, key, at(5), at(2)) - grape.score(query, key, at(2), at(5)))) > 0.1


@given(SEEDS, st.integers(2, 9), TURNS)
def test_its_spectrum_is_one_pair_and_ones(seed: int, width: int, turns: float) -> None:
    grape = plane(seed, width)
    position = for_angle(grape, turns)
    matrix = grape.rotate(torch.eye(width, dtype=torch.float64), position).T
    assert float(torch.linalg.det(matrix)) == pytest.approx(1, abs=1e-11)
    assert float(matrix.trace()) == pytest.approx(width - 2 + 2 * math.cos(turns), abs=1e-10)
    assert torch.linalg.svdvals(matrix).tolist() == pytest.approx([1.0] * width, abs=1e-12)


@given(SEEDS, WIDTHS, st.sampled_from([1.0, 1e-2, 1e-4]))
def test_s_is_the_area_that_alpha_beta_and_gamma_leave(seed: int, width: int, apart: float) -> None:
    grape = plane(seed, width, apart)
    squared = grape.alpha * grape.beta - grape.gamma**2
    assert float(grape.s) ** 2 == pytest.approx(float(squared), abs=1e-14 * float(grape.alpha * grape.beta))


def test_s_is_right_where_its_difference_of_products_has_no_digit_left() -> None:
    a = torch.tensor([1.0, 0.0, 0.0], dtype=torch.float64)
    b = torch.tensor([1.0, 1e-12, 0.0], dtype=torch.float64)
    grape = RankTwo(a, b)
    assert float(grape.alpha * grape.beta - grape.gamma**2) == 0
    assert float(grape.s) == pytest.approx(1e-12, rel=1e-12)
    # A quarter of a turn, at a position of 1.6 billions: b's own direction goes to a's, and a's against it.
    turned = grape.rotate(torch.eye(3, dtype=torch.float64), at(math.pi / 2 * 1e12))
    expected = torch.tensor([[0.0, -1.0, 0.0], [1.0, 0.0, 0.0], [0.0, 0.0, 1.0]], dtype=torch.float64)
    torch.testing.assert_close(turned, expected, rtol=0, atol=1e-10)


@given(SEEDS, WIDTHS, st.floats(-1e6, 1e6))
def test_parallel_vectors_turn_nothing(seed: int, width: int, position: float) -> None:
    a, vector = normal(seed, 2, width)
    for b in (torch.zeros_like(a), a, -2 * a):
        assert torch.equal(RankTwo(a, b).rotate(vector, at(position)), vector)
        assert torch.equal(RankTwo(b, a).rotate(vector, at(position)), vector)


@given(SEEDS, st.floats(0.9, 1.1))
def test_the_series_meets_the_closed_form(seed: int, near: float) -> None:
    # Just where one takes over from the other, the angle being the root of SMALL.
    unit = torch.eye(4, dtype=torch.float64)
    angle = math.sqrt(1e-3) * near
    turned = RankTwo(unit[0], unit[1]).rotate(unit[0], at(angle))
    assert turned.tolist() == pytest.approx([math.cos(angle), -math.sin(angle), 0, 0], abs=1e-16)


@pytest.mark.parametrize("apart", [1.0, 1e-3, 1e-9, 0.0])
@pytest.mark.parametrize("position", [0.0, 0.4, 7.0])
def test_its_derivatives_are_those_of_the_exponential_also_where_s_is_0(
    apart: float, position: float
) -> None:
    start = plane(5, 4, apart)
    a, b = (vector.clone().requires_grad_() for vector in (start.a, start.b))
    vector, weights = normal(6, 2, 4)
    ours = torch.autograd.grad(RankTwo(a, b).rotate(vector, at(position)) @ weights, (a, b))
    dense = torch.linalg.matrix_exp(position * (torch.outer(a, b) - torch.outer(b, a))) @ vector @ weights
    exact = torch.autograd.grad(dense, (a, b))
    torch.testing.assert_close(ours, exact, rtol=1e-9, atol=1e-10)


@PAIRINGS
@given(seed=SEEDS, position=st.integers(0, 100_000), plane_index=st.integers(0, 3), theta=st.floats(0.001, 3))
def test_a_coordinate_plane_turns_as_ropes_own(
    pairing: Pairing, seed: int, position: int, plane_index: int, theta: float
) -> None:
    """b = Ja turns by −ω‖a‖² per position, so RoPE's θ is ω = −θ."""
    unit = torch.zeros(8, dtype=torch.float64)
    unit[plane_index if pairing == "half" else 2 * plane_index] = 1
    vector = normal(seed, 8)
    rope = Profile(10_000.0, 8, pairing, frequencies=(theta,) * 4)
    everywhere = rotate(vector[None], rotation_rows(at(position).expand(1, 4), rope, torch.float64), pairing)[
        0
    ]
    inside = (unit + quarter_turn(unit, pairing)).abs()
    expected = everywhere * inside + vector * (1 - inside)
    turned = RankTwo.canonical(unit, -theta, pairing).rotate(vector, at(position))
    torch.testing.assert_close(turned, expected, rtol=0, atol=1e-12 * (1 + position / 1000))


@PAIRINGS
def test_a_transposed_sign_or_a_swapped_pairing_is_not_rope(pairing: Pairing) -> None:
    other: Pairing = "half" if pairing == "interleaved" else "interleaved"
    unit, vector = torch.eye(8, dtype=torch.float64)[0], normal(1, 8)
    right = RankTwo.canonical(unit, -1.0, pairing).rotate(vector, at(3))
    for wrong in (RankTwo.canonical(unit, 1.0, pairing), RankTwo.canonical(unit, -1.0, other)):
        assert float((wrong.rotate(vector, at(3)) - right).norm()) > 0.1


@PAIRINGS
@given(seed=SEEDS, width=st.integers(1, 9))
def test_the_quarter_turn_is_a_complex_structure(pairing: Pairing, seed: int, width: int) -> None:
    x, y = normal(seed, 2, width)
    even = width // 2 * 2
    assert torch.equal(quarter_turn(quarter_turn(x, pairing), pairing)[:even], -x[:even])
    assert float(quarter_turn(x, pairing) @ y) == pytest.approx(
        -float(x @ quarter_turn(y, pairing)), abs=1e-14
    )
    assert quarter_turn(x, pairing)[even:].tolist() == [0.0] * (width - even)


@PAIRINGS
@given(seed=SEEDS, position=TURNS)
def test_b_of_a_quarter_turn_has_the_simple_form(pairing: Pairing, seed: int, position: float) -> None:
    # I − (1 − cos nωα)P − sin(nωα)JP, with P the projector on the plane.
    a, vector = normal(seed, 2, 6)
    grape = RankTwo.canonical(a, 0.3, pairing)
    assert float(grape.gamma) == pytest.approx(0, abs=1e-14)
    assert float(grape.s) == pytest.approx(float(grape.alpha), rel=1e-13)
    frame = torch.stack((a, quarter_turn(a, pairing))) / a.norm()
    inside = frame.T @ (frame @ vector)
    angle = position * 0.3 * grape.alpha
    expected = vector - (1 - angle.cos()) * inside - angle.sin() * quarter_turn(inside, pairing)
    torch.testing.assert_close(grape.rotate(vector, at(position)), expected, rtol=0, atol=1e-11)


@given(SEEDS, TURNS)
def test_only_the_oriented_area_of_a_and_b_matters(seed: int, position: float) -> None:
    # [a b]M has the generator det(M)·L.
    grape, vector, mixing = plane(seed, 5), normal(seed + 1, 5), normal(seed + 2, 2, 2)
    a, b = torch.stack((grape.a, grape.b), dim=-1).matmul(mixing).unbind(-1)
    determinant = float(torch.linalg.det(mixing))
    mixed = RankTwo(a, b).rotate(vector, at(position / 10))
    scaled = RankTwo(grape.a, grape.b, determinant).rotate(vector, at(position / 10))
    torch.testing.assert_close(mixed, scaled, rtol=0, atol=1e-9)


@given(SEEDS, TURNS, TURNS)
def test_it_is_one_plane_of_a_basis(seed: int, omega: float, position: float) -> None:
    grape, vectors = RankTwo(*normal(seed, 2, 3, 6), omega / 100), normal(seed + 1, 4, 3, 6)
    expected = grape.rotate(vectors, at(position))
    torch.testing.assert_close(grape.subspaces().rotate(vectors, at(position)), expected, rtol=0, atol=1e-10)


def test_every_head_turns_in_its_own_plane_and_every_token_by_its_own_position() -> None:
    a, b = normal(1, 2, 3, 6)
    vectors, positions = normal(2, 5, 3, 6), torch.arange(5)
    turned = RankTwo(a, b, 0.2).rotate(vectors, positions[:, None])
    for token in range(5):
        for head in range(3):
            alone = RankTwo(a[head], b[head], 0.2).rotate(vectors[token, head], positions[token])
            torch.testing.assert_close(turned[token, head], alone, rtol=0, atol=1e-14)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_angles_keep_their_digits_in_narrow_vectors(dtype: torch.dtype) -> None:
    unit, position = torch.eye(4, dtype=torch.float64), 1_048_575
    turned = RankTwo(unit[0], unit[1], -0.5).rotate(unit[0].to(dtype), torch.tensor(position))
    assert turned.dtype == dtype
    exact = [math.cos(position / 2), math.sin(position / 2), 0, 0]
    assert turned.double().tolist() == pytest.approx(exact, abs=2 * torch.finfo(dtype).eps)


class Largest(TorchDispatchMode):
    """The numbers of the largest tensor that any operation makes, and of all together."""

    def __init__(self) -> None:
        super().__init__()
        self.largest = self.total = 0

    def __torch_dispatch__(
        self,
        func: Any,
        types: Sequence[type],
        args: tuple[Any, ...] = (),
        kwargs: dict[str, Any] | None = None,
    ) -> Any:
        result = func(*args, **(kwargs or {}))
        for tensor in result if isinstance(result, tuple | list) else (result,):
            if isinstance(tensor, torch.Tensor):
                self.largest = max(self.largest, tensor.numel())
                self.total += tensor.numel()
        return result


def made(width: int, tokens: int) -> Largest:
    grape, vectors, positions = plane(1, width), normal(2, tokens, width), torch.arange(tokens)
    with Largest() as mode:
        grape.rotate(vectors, positions)
    return mode


@pytest.mark.parametrize(("width", "tokens"), [(64, 1), (4096, 1), (4096, 7)])
def test_nothing_larger_than_the_vectors_is_ever_made(width: int, tokens: int) -> None:
    assert made(width, tokens).largest == width * tokens


def test_what_is_made_grows_with_the_width_and_not_with_its_square() -> None:
    assert made(8192, 3).total < 2.01 * made(4096, 3).total


@pytest.mark.parametrize(
    ("a", "b", "field"),
    [
        (torch.ones(4), torch.ones(4, dtype=torch.float64), "a"),
        (torch.ones(4, dtype=torch.float64), torch.ones(5, dtype=torch.float64), "b"),
        (torch.ones(4, dtype=torch.float64), torch.full((4,), math.nan, dtype=torch.float64), "b"),
        (torch.ones(1, 2, 4, dtype=torch.float64), torch.ones(1, 2, 4, dtype=torch.float64), "a"),
    ],
)
def test_vectors_that_span_no_generator_are_refused_by_name(
    a: torch.Tensor, b: torch.Tensor, field: str
) -> None:
    with pytest.raises(EncodingError) as caught:
        RankTwo(a, b)
    assert caught.value.field == field


def test_a_frequency_that_is_no_number_is_refused() -> None:
    a, b = normal(1, 2, 4)
    with pytest.raises(EncodingError, match="omega: must be finite"):
        RankTwo(a, b, math.nan)


def test_a_cached_key_is_good_for_ever_and_no_larger() -> None:
    contract = plane(1, 4).contract
    assert (contract.acts, contract.cache_rule, contract.relative) == ("query_key", "fixed", "exact")
    assert contract.servable
    assert contract.extra_dimensions == 0
