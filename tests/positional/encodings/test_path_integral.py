"""Path integrals against their sums, written out, and why no cached key can hold them."""

import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from positional.encodings.contract import EncodingError
from positional.encodings.forgetting import Forgetting
from positional.encodings.path_integral import PathIntegral, PathStream
from positional.encodings.unipotent import pair
from tests.support.draws import normal

seeds = st.integers(0, 2**32 - 1)
counts = st.integers(1, 16)

WIDTH = 6


def probes(seed: int, count: int) -> torch.Tensor:
    return torch.nn.functional.rms_norm(normal(seed, count, WIDTH), (WIDTH,))


def rotation(token: int) -> torch.Tensor:
    """R_ℓ as the exponential of ℓ times a quarter turn in each pair of features."""
    quarter = torch.tensor([[0.0, -1.0], [1.0, 0.0]], dtype=torch.float64)
    return torch.linalg.matrix_exp(token * torch.block_diag(*[quarter] * (WIDTH // 2)))


def step(probes: torch.Tensor, strength: float, t: int, token: int) -> float:
    read = (probes[t] @ rotation(token) @ probes[token]).item() / WIDTH
    return -strength * math.log1p(math.exp(-read))


def table(encoding: PathIntegral) -> torch.Tensor:
    at = torch.arange(len(encoding.probes))
    return encoding.bias(at[:, None], at)


@given(count=counts, strength=st.floats(0.01, 2), seed=seeds)
def test_a_bias_is_the_sum_of_the_steps_on_the_way(count: int, strength: float, seed: int) -> None:
    encoding = PathIntegral(probes(seed, count), strength)
    bias = table(encoding)
    for t in range(count):
        steps = [step(encoding.probes, strength, t, token) for token in range(t + 1)]
        expected = [sum(steps[j + 1 :]) for j in range(t + 1)]
        assert bias[t, : t + 1].tolist() == pytest.approx(expected, rel=1e-12, abs=1e-12)
        assert bias[t, t + 1 :].eq(-math.inf).all()


@given(count=st.integers(2, 16), seed=seeds)
def test_a_lifted_product_along_the_path_is_the_direct_bias(count: int, seed: int) -> None:
    encoding = PathIntegral(probes(seed, count), 0.5)
    t, j = count - 1, count // 2 - 1
    query, key = normal(seed + 1, 2, 4)
    unit, lift = torch.eye(6, dtype=torch.float64), pair(6, reads=4, writes=5)
    product = unit
    for token in range(j + 1, t + 1):
        product = product @ (unit - step(encoding.probes, 0.5, t, token) * lift.left @ lift.right.T)
    hat_query, hat_key = torch.cat((query, unit[4, 4:])), torch.cat((key, unit[5, 4:]))
    walked = hat_query @ torch.linalg.inv(product).T @ hat_key
    bias = encoding.bias(torch.tensor(t), torch.tensor(j))
    torch.testing.assert_close(walked, query @ key + bias, rtol=1e-12, atol=1e-12)
    score = encoding.score(query, key, torch.tensor(t), torch.tensor(j))
    torch.testing.assert_close(score, query @ key + 2 * bias, rtol=1e-12, atol=1e-12)


@given(count=counts, chunk=counts, seed=seeds)
def test_streaming_is_recomputing(count: int, chunk: int, seed: int) -> None:
    encoding = PathIntegral(probes(seed, count), 0.5)
    stream = PathStream(0.5, WIDTH)
    whole = table(encoding)
    for places in torch.arange(count).split(chunk):
        rows = stream.append(encoding.probes[places])
        torch.testing.assert_close(rows, whole[places, : int(places[-1]) + 1], rtol=1e-12, atol=1e-12)


@given(count=st.integers(1, 16), seed=seeds)
def test_near_keys_stand_over_far_ones_and_never_above_the_query(count: int, seed: int) -> None:
    bias = table(PathIntegral(probes(seed, count), 0.5))
    for t in range(count):
        row = bias[t, : t + 1]
        assert row[-1] == 0
        assert (row.diff() > 0).all()


@given(count=st.integers(1, 16), seed=seeds)
def test_steps_that_see_no_query_are_forgetting(count: int, seed: int) -> None:
    first = probes(seed, 1).expand(count, WIDTH)
    encoding = PathIntegral(first, 0.5)
    gates = torch.tensor([step(first, 0.5, 0, token) for token in range(count)], dtype=torch.float64)
    at = torch.arange(count)
    expected = Forgetting(gates).bias(at[:, None], at).tril()
    torch.testing.assert_close(table(encoding).tril(), expected, rtol=1e-12, atol=1e-12)


@given(seed=seeds)
def test_the_end_point_changes_what_a_key_gets_beside_its_neighbours(seed: int) -> None:
    """A cached key would need the same lead over another key for every query that reads both."""
    encoding = PathIntegral(probes(seed, 8), 0.5)
    lead = table(encoding)[2:, 1] - table(encoding)[2:, 0]
    assert lead.max() - lead.min() > 1e-3
    gates = torch.nn.functional.logsigmoid(normal(seed, 8))
    at = torch.arange(8)
    forgetting = Forgetting(gates).bias(at[2:, None], at[:2])
    assert (forgetting[:, 1] - forgetting[:, 0]).diff().abs().max() <= 1e-12


def test_no_few_products_of_a_querys_numbers_and_a_keys_give_it() -> None:
    """Past the width of the probes, a bias linear in them would leave singular values of 0."""
    bias = table(PathIntegral(probes(0, 128), 0.5))[64:, :64]
    values = torch.linalg.svdvals(bias)
    assert (values > 1e-6 * values[0]).sum() > 3 * WIDTH


@given(seed=seeds)
def test_it_is_not_relative(seed: int) -> None:
    some = probes(seed, 6)
    here = PathIntegral(some, 0.5).bias(torch.tensor(5), torch.tensor(0))
    shifted = PathIntegral(torch.cat((probes(seed + 1, 2), some)), 0.5)
    there = shifted.bias(torch.tensor(7), torch.tensor(2))
    assert (here - there).abs() > 1e-9


def test_it_is_refused_by_a_paged_cache() -> None:
    contract = PathIntegral(probes(0, 4), 0.5).contract
    assert (contract.cache_rule, contract.relative, contract.servable) == ("end_point", "no", False)
    assert contract.extra_dimensions == WIDTH


def test_what_cannot_be_is_refused() -> None:
    with pytest.raises(EncodingError, match="even width"):
        PathIntegral(torch.ones(4, 3), 0.5)
    with pytest.raises(EncodingError, match="strength: must be positive and finite"):
        PathIntegral(torch.ones(4, 2), 0.0)
