"""Biases as coordinates, through vLLM's own attention kernel on bf16: what is lost at 32,000 positions."""

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import pytest
import torch
from vllm import _custom_ops as ops
from vllm.v1.attention.backends.cpu_attn import _get_attn_isa

from positional.attention import attend
from positional.encodings.augmented import (
    EXACT_POSITIONS,
    PHASE_PARTS,
    SLOPE_PARTS,
    gate_key,
    gate_query,
    logit_bound,
    phase_key,
    phase_query,
    slope_key,
    slope_query,
)
from positional.encodings.forgetting import phases
from positional.masks import visible

TOKENS, QUERIES = 32_000, 8
WIDTH, CACHED, HEADS, KV_HEADS, BLOCK = 64, 80, 4, 2, 32
SCALE = WIDTH**-0.5
BF16 = torch.bfloat16
PLACES = torch.arange(TOKENS)
ASKED = PLACES[-QUERIES:]
STEEPEST = 0.02
CONTENT = 12.0  # the largest logit of content alone
REACH = 30.0  # what lies further below a row's own key has no weight


@dataclass(frozen=True, slots=True, eq=False)
class Biased:
    """Coordinates of queries and keys, the exact bias [heads, queries, keys], how far a logit may be off."""

    queries: torch.Tensor
    keys: torch.Tensor
    exact: torch.Tensor
    bound: float


def content() -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """bf16 queries, keys and values; the values of neighbours differ."""
    generator = torch.Generator().manual_seed(3)
    query = 2 * torch.randn(QUERIES, HEADS, WIDTH, generator=generator)
    key, value = torch.randn(2, TOKENS, KV_HEADS, WIDTH, generator=generator)
    return query.to(BF16), key.to(BF16), value.to(BF16)


def kernel(query: torch.Tensor, key: torch.Tensor, value: torch.Tensor) -> torch.Tensor:
    """Attention of the last queries over a paged cache of all keys: [queries, heads, width]."""
    blocks = TOKENS // BLOCK
    isa = _get_attn_isa(BF16, BLOCK, CACHED)
    cache = torch.zeros(blocks, KV_HEADS, 2 * BLOCK, CACHED, dtype=BF16)
    key_cache, value_cache = cache.chunk(2, dim=2)
    ops.cpu_attn_reshape_and_cache(key, value, key_cache, value_cache, PLACES, isa)
    starts = torch.tensor([0, QUERIES], dtype=torch.int32)
    lengths = torch.tensor([TOKENS], dtype=torch.int32)
    metadata = ops.cpu_attn_get_scheduler_metadata(
        num_reqs=1,
        num_heads=HEADS,
        num_kv_heads=KV_HEADS,
        head_dim=CACHED,
        seq_lens=lengths,
        dtype=BF16,
        query_start_loc=starts,
        causal=True,
        sliding_window_size=-1,
        isa=isa,
        enable_kv_split=False,
    )
    output = torch.empty_like(query)
    ops.cpu_attention_with_kv_cache(
        query=query,
        key_cache=key_cache,
        value_cache=value_cache,
        output=output,
        query_start_loc=starts,
        seq_lens=lengths,
        scale=SCALE,
        causal=True,
        alibi_slopes=None,
        sliding_window=-1,
        block_table=torch.arange(blocks, dtype=torch.int32)[None],
        softcap=0.0,
        scheduler_metadata=metadata,
        s_aux=None,
    )
    return output[..., :WIDTH]


def widened(content: torch.Tensor, behind: torch.Tensor | None = None) -> torch.Tensor:
    heads = content if behind is None else torch.cat((content, behind), dim=-1)
    return torch.nn.functional.pad(heads, (0, CACHED - heads.shape[-1]))


def forgetting(query: torch.Tensor, key: torch.Tensor) -> Biased:
    """Gates that forget about a hundredth a token, so that the phase comes to hundreds."""
    logits = 4.6 + torch.randn(TOKENS, KV_HEADS, generator=torch.Generator().manual_seed(4))
    phase = phases(torch.nn.functional.logsigmoid(logits))
    by_head = phase.repeat_interleave(HEADS // KV_HEADS, dim=1).T
    largest = float(phase.abs().max())
    return Biased(
        phase_query(query),
        phase_key(phase, SCALE, BF16),
        by_head[:, ASKED, None] - by_head[:, None, :],
        logit_bound(held=largest, parts=PHASE_PARTS, largest=largest + CONTENT, width=CACHED),
    )


def sloped_by_query(query: torch.Tensor, key: torch.Tensor) -> Biased:
    slopes = torch.rand(QUERIES, HEADS, generator=torch.Generator().manual_seed(5)) * STEEPEST
    return Biased(
        slope_query(slopes, SCALE, BF16),
        slope_key(PLACES, BF16)[:, None].expand(-1, KV_HEADS, -1),
        slopes.double().T[:, :, None] * (PLACES - ASKED[:, None]),
        logit_bound(held=REACH, parts=SLOPE_PARTS, largest=STEEPEST * TOKENS + CONTENT, width=CACHED),
    )


def sloped_by_key(query: torch.Tensor, key: torch.Tensor) -> Biased:
    gates = torch.rand(TOKENS, KV_HEADS, generator=torch.Generator().manual_seed(6)) * STEEPEST
    slopes = gates.double().repeat_interleave(HEADS // KV_HEADS, dim=1).T
    return Biased(
        gate_query(ASKED, BF16)[:, None].expand(-1, HEADS, -1),
        gate_key(gates, PLACES[:, None], SCALE, BF16),
        slopes[:, None, :] * (PLACES - ASKED[:, None]),
        # Query and key both have the product of gate and position, one as a sum of two parts'.
        logit_bound(held=REACH, parts=SLOPE_PARTS, largest=2 * STEEPEST * TOKENS + CONTENT, width=CACHED),
    )


@pytest.mark.parametrize("bias", [forgetting, sloped_by_query, sloped_by_key])
def test_a_kernel_attends_within_the_stated_bound(bias: Callable[..., Biased]) -> None:
    query, key, value = content()
    given = bias(query, key)
    found = kernel(widened(query, given.queries), widened(key, given.keys), widened(value)).double()
    exact = partial(attend, query.double(), key.double(), visible=visible(ASKED, PLACES), bias=given.exact)
    # A logit that is off by ε changes a weight by a factor within e^±2ε; weights and values are bf16.
    limit = (math.expm1(2 * given.bound) + 2.0**-7) * exact(value=value.double().abs())
    assert ((found - exact(value=value.double())).abs() <= limit).all()


def test_a_phase_in_one_bf16_number_would_be_far_outside() -> None:
    query, key, value = content()
    given = forgetting(query, key)
    rounded = torch.cat((given.keys[..., :1], torch.zeros_like(given.keys[..., 1:])), dim=-1)
    found = kernel(widened(query, given.queries), widened(key, rounded), widened(value)).double()
    exact = attend(query.double(), key.double(), value.double(), visible(ASKED, PLACES), bias=given.exact)
    assert (found - exact).abs().max() > 0.05


def test_positions_are_exact_as_far_as_a_model_may_be_long() -> None:
    assert TOKENS < EXACT_POSITIONS
    places = torch.randint(EXACT_POSITIONS, (10_000,), generator=torch.Generator().manual_seed(7))
    assert torch.equal(slope_key(places, BF16)[:, :2].double().sum(-1), places.double())
