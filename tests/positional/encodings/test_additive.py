"""The paper's additive lifts against the biases that they stand for."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from positional.encodings.additive import Additive
from positional.encodings.alibi import Alibi
from positional.encodings.contract import EncodingError
from positional.encodings.gated_slope import GatedSlope
from positional.encodings.unipotent import dictionary, key_gate, pair
from tests.support.draws import normal

positions = st.integers(-5_000, 5_000)
seeds = st.integers(0, 2**32 - 1)
frequencies = st.floats(-2, 2, allow_subnormal=False)

WIDTH = 5


def at(position: int) -> torch.Tensor:
    return torch.tensor(position)


def near(value: torch.Tensor, expected: torch.Tensor | float) -> bool:
    return torch.allclose(value, torch.as_tensor(expected, dtype=torch.float64), rtol=1e-12, atol=1e-9)


@given(i=positions, j=positions, frequency=frequencies, seed=seeds)
def test_a_key_chooses_its_slope(i: int, j: int, frequency: float, seed: int) -> None:
    gate, query, key = normal(seed, 3, WIDTH)
    score = Additive.gated_by_key(gate, frequency).score(query, key, at(i), at(j))
    assert near(score, query @ key + 1 + (i - j) * frequency * (gate @ key))


@given(i=positions, j=positions, frequency=frequencies, seed=seeds)
def test_a_query_chooses_its_slope(i: int, j: int, frequency: float, seed: int) -> None:
    gate, query, key = normal(seed, 3, WIDTH)
    score = Additive.gated_by_query(gate, frequency).score(query, key, at(i), at(j))
    assert near(score, query @ key + 1 + (i - j) * frequency * (gate @ query))


@given(i=positions, j=positions, slope=st.floats(0.001, 2), seed=seeds)
def test_the_lift_by_two_is_alibi(i: int, j: int, slope: float, seed: int) -> None:
    query, key = normal(seed, 2, WIDTH)
    lifted = Additive.sloped(WIDTH, slope * WIDTH**0.5)
    assert near(lifted.score(query, key, at(i), at(j)), Alibi(slope).score(query, key, at(i), at(j)))


@given(i=positions, j=positions, shift=positions, seed=seeds)
def test_a_score_depends_on_the_displacement_alone(i: int, j: int, shift: int, seed: int) -> None:
    gate, query, key = normal(seed, 3, WIDTH)
    for encoding in (
        Additive.gated_by_key(gate),
        Additive.gated_by_query(gate),
        Additive.sloped(WIDTH, 0.5),
    ):
        here = encoding.score(query, key, at(i), at(j))
        there = encoding.score(query, key, at(i + shift), at(j + shift))
        torch.testing.assert_close(here, there, rtol=1e-10, atol=1e-9)


@given(i=st.integers(1, 5_000), seed=seeds)
def test_a_flipped_sign_is_seen(i: int, seed: int) -> None:
    gate, query, key = normal(seed, 3, WIDTH)
    right = Additive.gated_by_key(gate, 1.0).score(query, key, at(i), at(0))
    flipped = Additive.gated_by_key(gate, -1.0).score(query, key, at(i), at(0))
    transposed = Additive.gated_by_query(gate, 1.0).score(query, key, at(i), at(0))
    assert (right - flipped).abs() > 1e-8
    assert (right - transposed).abs() > 1e-8


@given(count=st.integers(1, 12), chunk=st.integers(1, 12), offset=st.integers(0, 8192), seed=seeds)
def test_streaming_is_recomputing(count: int, chunk: int, offset: int, seed: int) -> None:
    gate = normal(seed, WIDTH)
    keys, query, places = (
        normal(seed + 1, count, WIDTH),
        normal(seed + 2, WIDTH),
        torch.arange(count) + offset,
    )
    encoding = Additive.gated_by_key(gate)
    cached = torch.cat(
        [encoding.lift_key(k, p) for k, p in zip(keys.split(chunk), places.split(chunk), strict=True)]
    )
    streamed = cached @ encoding.lift_query(query, places[-1])
    torch.testing.assert_close(
        streamed, encoding.score(query, keys, places[-1], places), rtol=1e-12, atol=1e-8
    )


@given(i=positions, j=positions, seed=seeds)
def test_a_dictionary_of_slopes_is_their_sum(i: int, j: int, seed: int) -> None:
    gate, query, key = normal(seed, 3, WIDTH)
    parts = [key_gate(gate, WIDTH + 2, reads=WIDTH), pair(WIDTH + 2, reads=WIDTH, writes=WIDTH + 1)]
    ends = torch.eye(2, dtype=torch.float64)
    encoding = Additive(dictionary(parts, [0.25, -0.5]), ends[0], ends[1])
    expected = query @ key + (i - j) * (0.25 * (gate @ key) - 0.5)
    assert near(encoding.score(query, key, at(i), at(j)), expected)


@given(i=positions, j=positions, seed=seeds)
def test_linear_gates_are_the_papers_lift(i: int, j: int, seed: int) -> None:
    query_gate, key_gate, query, key = normal(seed, 4, WIDTH)
    both = GatedSlope(query_gate, key_gate, link="identity").score(query, key, at(i), at(j))
    by_query = Additive.gated_by_query(query_gate, -1.0).score(query, key, at(i), at(j))
    by_key = Additive.gated_by_key(key_gate, -1.0).score(query, key, at(i), at(j))
    # The lifts hold q·k and the constant 1 twice.
    assert near(both, by_query + by_key - query @ key - 2)


def test_its_keys_are_wider_and_stay_valid() -> None:
    for encoding, extra in ((Additive.gated_by_key(torch.ones(4)), 1), (Additive.sloped(4, 0.5), 2)):
        contract = encoding.contract
        assert (contract.extra_dimensions, contract.cache_rule, contract.relative) == (
            extra,
            "fixed",
            "exact",
        )


def test_a_lift_without_content_is_refused() -> None:
    ends = torch.eye(2, dtype=torch.float64)
    with pytest.raises(EncodingError, match="must be wider than the added coordinates"):
        Additive(pair(2, reads=0, writes=1), ends[0], ends[1])
    with pytest.raises(EncodingError, match="must both be of"):
        Additive(pair(4, reads=2, writes=3), ends[0], ends[1, :1])
