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


def test_one_part_loses_neighbours() -> None:
    positions = torch.arange(TOKENS)
    assert len(split(positions, 1, torch.bfloat16).unique()) < TOKENS / 20


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
    most = largest(wide_query, wide_key)
    bound = [
        logit_bound(held=slope * reach, parts=SLOPE_PARTS, largest=most, width=WIDTH + SLOPE_WIDTH)
        for reach in (64, TOKENS)
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
