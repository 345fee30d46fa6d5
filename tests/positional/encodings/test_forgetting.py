"""FoX against its sum of log gates, and as the path of unipotent factors that GRAPE makes of it."""

import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from positional.encodings.alibi import Alibi
from positional.encodings.contract import EncodingError
from positional.encodings.forgetting import Forgetting, phases
from positional.encodings.unipotent import Nilpotent, pair
from tests.support.draws import normal

seeds = st.integers(0, 2**32 - 1)
counts = st.integers(1, 24)

WIDTH = 4


def log_gates(seed: int, count: int) -> torch.Tensor:
    return torch.nn.functional.logsigmoid(3 * normal(seed, count))


def path(generator: Nilpotent, log_gates: torch.Tensor) -> torch.Tensor:
    """The product of the factors I − log f_ℓ · E over a way, each formed."""
    width = generator.width
    product = torch.eye(width, dtype=torch.float64)
    for gate in log_gates.tolist():
        product = product @ (
            torch.eye(width, dtype=torch.float64) - gate * generator.left @ generator.right.T
        )
    return product


@given(count=counts, seed=seeds)
def test_a_bias_is_the_sum_of_the_log_gates_on_the_way(count: int, seed: int) -> None:
    gates = log_gates(seed, count)
    at = torch.arange(count)
    bias = Forgetting(gates).bias(at[:, None], at)
    for i in range(count):
        for j in range(i + 1):
            assert bias[i, j].item() == pytest.approx(sum(gates[j + 1 : i + 1].tolist()), abs=1e-12)


@given(count=st.integers(2, 24), seed=seeds)
def test_a_lifted_product_along_the_path_is_the_direct_bias(count: int, seed: int) -> None:
    gates = log_gates(seed, count)
    query, key = normal(seed + 1, WIDTH), normal(seed + 2, WIDTH)
    i, j = count - 1, count // 2 - 1
    lift = pair(WIDTH + 2, reads=WIDTH, writes=WIDTH + 1)
    hat_query = torch.cat((query, torch.tensor([1.0, 0], dtype=torch.float64)))
    hat_key = torch.cat((key, torch.tensor([0, 1.0], dtype=torch.float64)))
    walked = hat_query @ torch.linalg.inv(path(lift, gates[j + 1 : i + 1])).T @ hat_key
    phase = phases(gates)
    streamed = lift.act(hat_query, phase[i]) @ lift.act_inversely(hat_key, phase[j])
    direct = (query @ key).item() + gates[j + 1 : i + 1].sum().item()
    assert walked.item() == pytest.approx(direct, abs=1e-12)
    assert streamed.item() == pytest.approx(direct, abs=1e-12)
    scored = Forgetting(gates / math.sqrt(WIDTH)).score(query, key, torch.tensor(i), torch.tensor(j))
    assert scored.item() == pytest.approx(direct, abs=1e-12)


@given(count=st.integers(2, 24), seed=seeds)
def test_a_flipped_sign_is_seen(count: int, seed: int) -> None:
    gates = log_gates(seed, count)
    query, key = normal(seed + 1, WIDTH + 2), normal(seed + 2, WIDTH + 2)
    lift = pair(WIDTH + 2, reads=WIDTH, writes=WIDTH + 1)
    right = query @ torch.linalg.inv(path(lift, gates[1:])).T @ key
    flipped = query @ torch.linalg.inv(path(lift, -gates[1:])).T @ key
    gap = 2 * gates[1:].sum() * query[WIDTH] * key[WIDTH + 1]
    torch.testing.assert_close(right - flipped, gap, rtol=1e-9, atol=1e-12)


@given(slope=st.floats(0.001, 2), count=counts, seed=seeds)
def test_a_constant_gate_is_alibi(slope: float, count: int, seed: int) -> None:
    query, keys, at = normal(seed, WIDTH), normal(seed + 1, count, WIDTH), torch.arange(count)
    constant = Forgetting(torch.full((count,), -slope, dtype=torch.float64))
    torch.testing.assert_close(
        constant.score(query, keys, at[-1], at),
        Alibi(slope).score(query, keys, at[-1], at),
        rtol=1e-12,
        atol=1e-12,
    )


@given(count=counts, chunk=counts, seed=seeds)
def test_phases_of_chunks_are_those_of_the_whole(count: int, chunk: int, seed: int) -> None:
    gates = torch.nn.functional.logsigmoid(normal(seed, count, 3))
    found, before = [], torch.zeros(3, dtype=torch.float64)
    for part in gates.split(chunk):
        found.append(phases(part, before))
        before = found[-1][-1]
    torch.testing.assert_close(torch.cat(found), phases(gates), rtol=1e-13, atol=1e-13)


@given(count=st.integers(2, 24), shift=st.integers(1, 24), seed=seeds)
def test_a_bias_depends_on_what_lies_between_alone(count: int, shift: int, seed: int) -> None:
    gates, others = log_gates(seed, count), log_gates(seed + 1, shift)
    here = Forgetting(gates).bias(torch.tensor(count - 1), torch.arange(count))
    there = Forgetting(torch.cat((others, gates))).bias(
        torch.tensor(shift + count - 1), torch.arange(count) + shift
    )
    torch.testing.assert_close(here, there, rtol=1e-12, atol=1e-12)


def test_it_is_relative_by_phase_and_its_keys_stay_valid() -> None:
    contract = Forgetting(torch.zeros(3)).contract
    assert (contract.relative, contract.cache_rule, contract.servable) == ("phase", "fixed", True)
    assert contract.extra_dimensions == 3


def test_gates_above_1_and_gates_of_several_heads_are_refused() -> None:
    with pytest.raises(EncodingError, match="log_gates: must not be above 0"):
        Forgetting(torch.tensor([-0.1, 0.1]))
    with pytest.raises(EncodingError, match=r"log_gates: must be of \[tokens\]"):
        Forgetting(torch.zeros(3, 2))


@pytest.mark.parametrize("log_gate", [-math.inf, math.nan])
def test_a_gate_that_forgets_all_is_refused(log_gate: float) -> None:
    with pytest.raises(EncodingError, match="log_gates: must be finite"):
        Forgetting(torch.tensor([-0.1, log_gate]))
