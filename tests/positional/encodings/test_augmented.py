"""Biases as coordinates of a cached key: what bf16 keeps of them at 32,000 positions."""

import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from positional.encodings.alibi import alibi_slopes
from positional.encodings.augmented import (
    EXACT_POSITIONS,
    GATE_WIDTH,
    PHASE_PARTS,
    PHASE_WIDTH,
    SLOPE_PARTS,
    SLOPE_WIDTH,
    gate_key,
    gate_query,
    logit_bound,
    phase_key,
    phase_query,
    slope_key,
    slope_query,
    split,
)
from positional.encodings.contract import EncodingError
from positional.encodings.forgetting import phases
from tests.support.draws import normal

TOKENS = 32_000
WIDTH = 64
SCALE = 1 / math.sqrt(WIDTH)
LAST = torch.arange(TOKENS - 16, TOKENS)
"""The queries that are looked at: the last ones, whose numbers are the largest."""

REACH = 20.0
"""A key whose bias is below −20 has less than 10⁻⁸ of what its content would weigh."""


def content(seed: int, count: int) -> torch.Tensor:
    return normal(seed, count, WIDTH).bfloat16()


def served(query: torch.Tensor, key: torch.Tensor) -> torch.Tensor:
    """Logits of bf16 numbers as a kernel takes them, multiplied exactly and summed in float32."""
    return (query.float() @ key.float().T) * SCALE


def largest(query: torch.Tensor, key: torch.Tensor) -> float:
    return float((query.float().abs() @ key.float().abs().T).max()) * SCALE


def against_own(logits: torch.Tensor) -> torch.Tensor:
    """Logits of LAST beside the one of the query's own token, float64: softmax sees no more of them."""
    own = logits.gather(1, LAST[:, None])
    return logits.double() - own.double()


def exact(query: torch.Tensor, key: torch.Tensor, bias: torch.Tensor) -> torch.Tensor:
    return against_own(query.double() @ key.double().T * SCALE + bias)


def visible(errors: torch.Tensor) -> torch.Tensor:
    return errors.where(torch.arange(TOKENS) <= LAST[:, None], 0.0)


@given(st.floats(-1e6, 1e6, allow_subnormal=False), st.integers(1, 4))
def test_parts_sum_to_the_value(value: float, parts: int) -> None:
    found = split(torch.tensor(value, dtype=torch.float64), parts, torch.bfloat16)
    assert found.shape == (parts,)
    assert abs(found.double().sum().item() - value) <= 2.0 ** (-8 * parts) * abs(value) + 1e-38


def test_every_position_is_exact_in_two_parts() -> None:
    positions = torch.arange(EXACT_POSITIONS + 1)
    assert split(positions, 2, torch.bfloat16).double().sum(-1).equal(positions.double())
    assert EXACT_POSITIONS == 131_072
    beyond = torch.tensor(EXACT_POSITIONS + 257)
    assert split(beyond, 2, torch.bfloat16).double().sum() != beyond


def test_one_part_is_off_by_whole_nats() -> None:
    query, key, at = content(0, len(LAST)), content(1, TOKENS), torch.arange(TOKENS)
    wide_query = torch.cat((query, torch.full((len(LAST), 1), 0.5 / SCALE).bfloat16()), dim=-1)
    wide_key = torch.cat((key, split(at, 1, torch.bfloat16)), dim=-1)
    bias = 0.5 * (at - LAST[:, None])
    errors = visible(against_own(served(wide_query, wide_key)) - exact(query, key, bias))
    assert errors.where(bias > -REACH, 0.0).abs().max() > 10


def test_float16_is_refused() -> None:
    with pytest.raises(EncodingError, match="dtype: must be bfloat16 or float32"):
        split(torch.tensor(1.0), 2, torch.float16)


@pytest.mark.parametrize("slope", alibi_slopes(12).tolist())
def test_a_slope_keeps_its_bound_at_32_000_positions(slope: float) -> None:
    query, key = content(0, len(LAST)), content(1, TOKENS)
    at = torch.arange(TOKENS)
    slopes = torch.full((len(LAST),), slope, dtype=torch.float64)
    wide_query = torch.cat((query, slope_query(slopes, SCALE, torch.bfloat16)), dim=-1)
    wide_key = torch.cat((key, slope_key(at, torch.bfloat16)), dim=-1)
    distance = (LAST[:, None] - at).double()
    errors = visible(against_own(served(wide_query, wide_key)) - exact(query, key, -slope * distance))
    within_reach = errors.where(slope * distance < REACH, 0.0)
    assert within_reach.abs().max() <= 0.01
    most = largest(wide_query, wide_key)
    bound = [
        logit_bound(held=slope * far, parts=SLOPE_PARTS, largest=most, width=WIDTH + SLOPE_WIDTH)
        for far in (64, TOKENS)
    ]
    assert errors.abs().max() <= bound[1]
    assert errors[-1, -64:].abs().max() <= bound[0]


def test_a_phase_keeps_its_bound_at_32_000_positions() -> None:
    query, key = content(0, len(LAST)), content(1, TOKENS)
    phase = phases(torch.nn.functional.logsigmoid(2 + normal(2, TOKENS)))
    wide_query = torch.cat((query, phase_query(query)), dim=-1)
    wide_key = torch.cat((key, phase_key(phase, SCALE, torch.bfloat16)), dim=-1)
    bias = phase[LAST][:, None] - phase
    errors = visible(against_own(served(wide_query, wide_key)) - exact(query, key, bias))
    assert errors.where(bias > -REACH, 0.0).abs().max() <= 0.003
    bound = logit_bound(
        held=2 * float(phase.abs().max()),
        parts=PHASE_PARTS,
        largest=largest(wide_query, wide_key),
        width=WIDTH + PHASE_WIDTH,
    )
    assert errors.abs().max() <= bound


def test_a_keys_gate_keeps_its_bound_at_32_000_positions() -> None:
    query, key = content(0, len(LAST)), content(1, TOKENS)
    gates, at = torch.nn.functional.softplus(normal(2, TOKENS) - 2), torch.arange(TOKENS)
    wide_query = torch.cat((query, gate_query(LAST, torch.bfloat16)), dim=-1)
    wide_key = torch.cat((key, gate_key(gates, at, SCALE, torch.bfloat16)), dim=-1)
    bias = (at - LAST[:, None]) * gates
    errors = visible(against_own(served(wide_query, wide_key)) - exact(query, key, bias))
    assert errors.where(bias > -REACH, 0.0).abs().max() <= 0.01
    bound = logit_bound(
        held=float(bias.abs().max()),
        parts=SLOPE_PARTS,
        largest=largest(wide_query, wide_key),
        width=WIDTH + GATE_WIDTH,
    )
    assert errors.abs().max() <= bound


@pytest.mark.parametrize("part", range(PHASE_PARTS))
def test_a_flipped_part_breaks_the_bound(part: int) -> None:
    query, key = content(0, len(LAST)), content(1, TOKENS)
    phase = phases(torch.nn.functional.logsigmoid(2 + normal(2, TOKENS)))
    added = phase_key(phase, SCALE, torch.bfloat16)
    added[:, part] = -added[:, part]
    wide_query = torch.cat((query, phase_query(query)), dim=-1)
    errors = against_own(served(wide_query, torch.cat((key, added), dim=-1))) - exact(
        query, key, phase[LAST][:, None] - phase
    )
    assert visible(errors).abs().max() > 1e-3


def test_bf16_attention_over_the_coordinates_is_float32_attention_with_the_bias() -> None:
    query, key, value = content(0, len(LAST)), content(1, TOKENS), content(2, TOKENS)
    phase = phases(torch.nn.functional.logsigmoid(2 + normal(3, TOKENS)))
    wide_query = torch.cat((query, phase_query(query)), dim=-1)
    wide_key = torch.cat((key, phase_key(phase, SCALE, torch.bfloat16)), dim=-1)
    seen = torch.arange(TOKENS) <= LAST[:, None]
    bias = (phase[LAST][:, None] - phase).float().masked_fill(~seen, -math.inf)
    attend = torch.nn.functional.scaled_dot_product_attention
    found = attend(wide_query[None], wide_key[None], value[None], attn_mask=seen, scale=SCALE)
    expected = attend(query.float()[None], key.float()[None], value.float()[None], attn_mask=bias)
    plain = attend(query.float()[None], key.float()[None], value.float()[None], attn_mask=seen)
    # bf16 rounds weights and outputs of about 1 to 2⁻⁸.
    torch.testing.assert_close(found.float(), expected, rtol=0, atol=0.03)
    assert (plain - expected).abs().max() > 0.3


@given(count=st.integers(1, 20), chunk=st.integers(1, 20), seed=st.integers(0, 2**32 - 1))
def test_coordinates_of_chunks_are_those_of_the_whole(count: int, chunk: int, seed: int) -> None:
    gates, at = normal(seed, count, 3).exp(), torch.arange(8192, 8192 + count)[:, None].expand(-1, 3)
    whole = gate_key(gates, at, SCALE, torch.bfloat16)
    parts = zip(gates.split(chunk), at.split(chunk), strict=True)
    assert torch.cat([gate_key(g, p, SCALE, torch.bfloat16) for g, p in parts]).equal(whole)


def test_a_keys_gate_leaves_the_own_token_without_bias() -> None:
    gates, at = normal(0, 200).exp(), torch.arange(TOKENS, TOKENS + 200)
    query = gate_query(at, torch.bfloat16).double()
    key = gate_key(gates, at, SCALE, torch.bfloat16).double()
    assert ((query * key).sum(-1) * SCALE).abs().max() <= 2**-32 * TOKENS * gates.max() * 2
