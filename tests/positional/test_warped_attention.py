"""Attention by pieces against a rotation of every pair."""

from collections.abc import Sequence
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from positional.attention import Rotation, attend
from positional.masks import visible
from positional.profile import Pairing, Profile
from positional.warped_attention import last_weights, warped_attention
from positional.warps import Plain, Rerope, Scaled, SelfExtend, String, Warp, displacement

HEADS, KV_HEADS, WIDTH = 4, 2, 8
PLAIN: tuple[Warp, ...] = (Plain(),) * HEADS
WARPS: dict[str, tuple[Warp, ...]] = {
    "plain": PLAIN,
    "string": (String(shift=11, window=3),) * HEADS,
    "self_extend": (SelfExtend(group=3, window=7),) * HEADS,
    "rectified": (Rerope(window=7),) * HEADS,
    "leaky": (Rerope(window=7, leak=0.25),) * HEADS,
    "ms_poe": tuple(Scaled(ratio) for ratio in (1.2, 1.8, 1.4, 1.6)),
    "all at once": (Plain(), String(shift=11, window=3), SelfExtend(group=3, window=7), Scaled(1.5)),
}
names = st.sampled_from(sorted(WARPS))
Tensors = tuple[torch.Tensor, torch.Tensor, torch.Tensor]


def tensors(queries: int, keys: int, dtype: torch.dtype = torch.float64) -> Tensors:
    generator = torch.Generator().manual_seed(100 * queries + keys)
    shapes = [(queries, HEADS, WIDTH), (keys, KV_HEADS, WIDTH), (keys, KV_HEADS, 6)]
    query, key, value = (torch.randn(shape, generator=generator, dtype=dtype) for shape in shapes)
    return query, key, value


def weights_pair_by_pair(
    query: torch.Tensor, key: torch.Tensor, warps: Sequence[Warp], profile: Profile
) -> torch.Tensor:
    """[heads, queries, keys]: every score from its own displacement, on complex planes."""
    places = torch.arange(len(key))
    here = places[len(key) - len(query) :]
    moved = torch.stack([displacement(warp, here, places) for warp in warps])
    planes = profile.planes
    as_planes = [
        torch.complex(x[..., 0 : 2 * planes : 2], x[..., 1 : 2 * planes : 2])
        if profile.pairing == "interleaved"
        else torch.complex(x[..., :planes], x[..., planes : 2 * planes])
        for x in (query, key)
    ]
    logits = torch.full((HEADS, len(query), len(key)), -torch.inf, dtype=query.dtype)
    for head in range(HEADS):
        kv_head = head // (HEADS // KV_HEADS)
        for i, place in enumerate(here.tolist()):
            for j in range(place + 1):
                turn = torch.exp(1j * moved[head, i, j] * profile.inverse_frequencies)
                q, k = as_planes[0][i, head], as_planes[1][j, kv_head]
                kept = query[i, head, 2 * planes :] @ key[j, kv_head, 2 * planes :]
                rotated = (q * turn * k.conj()).real.sum() * profile.attention_factor**2
                logits[head, i, j] = (rotated + kept) / WIDTH**0.5
    return logits.softmax(-1)


def pair_by_pair(query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, *how: Any) -> torch.Tensor:
    weights = weights_pair_by_pair(query, key, *how)
    return torch.einsum("hqk,khw->qhw", weights, value.repeat_interleave(HEADS // KV_HEADS, dim=1))


@pytest.mark.parametrize("name", WARPS)
@pytest.mark.parametrize("pairing", ["half", "interleaved"])
@pytest.mark.parametrize("rotary_dim", [WIDTH, 4])
def test_every_pair_is_turned_by_its_displacement(name: str, pairing: Pairing, rotary_dim: int) -> None:
    profile, data = Profile.rope(100.0, rotary_dim, pairing), tensors(30, 30)
    fast = warped_attention(*data, WARPS[name], profile, block=8)
    assert torch.allclose(fast, pair_by_pair(*data, WARPS[name], profile), atol=1e-10)


@given(names, st.integers(1, 24), st.integers(0, 16), st.integers(1, 30))
def test_blocks_and_tokens_before_change_nothing(name: str, queries: int, before: int, block: int) -> None:
    query, key, value = tensors(before + queries, before + queries)
    profile = Profile.rope(100.0, WIDTH)
    whole = warped_attention(query, key, value, WARPS[name], profile, block=len(query))
    part = warped_attention(query[before:], key, value, WARPS[name], profile, block=block)
    assert torch.allclose(part, whole[before:], atol=1e-10)


def test_the_plain_warp_is_attention_as_it_is() -> None:
    data, profile, places = tensors(40, 40), Profile.rope(1e4, WIDTH), torch.arange(40)
    plain = attend(*data, visible(places, places), Rotation.of(profile, places, places))
    assert torch.allclose(warped_attention(*data, PLAIN, profile, block=16), plain, atol=1e-12)


@pytest.mark.parametrize("name", sorted(WARPS.keys() - {"plain"}))
def test_a_warp_is_seen(name: str) -> None:
    data, profile = tensors(40, 40), Profile.rope(100.0, WIDTH)
    plain, warped = (warped_attention(*data, warps, profile) for warps in (PLAIN, WARPS[name]))
    assert (plain - warped).abs().max() > 0.05


def test_far_pieces_alone_do_not_touch_a_short_prompt() -> None:
    data, profile = tensors(11, 11), Profile.rope(100.0, WIDTH)
    assert torch.equal(*(warped_attention(*data, warps, profile) for warps in (PLAIN, WARPS["string"])))


def test_the_scale_is_that_of_the_caller() -> None:
    query, key, value = tensors(12, 12)
    profile = Profile.rope(100.0, WIDTH)
    doubled = warped_attention(2 * query, key, value, PLAIN, profile, scale=0.25)
    assert torch.allclose(doubled, warped_attention(query, key, value, PLAIN, profile, scale=0.5))


@pytest.mark.parametrize("name", WARPS)
def test_float32_is_close_to_float64(name: str) -> None:
    profile, exact = Profile.rope(1e4, WIDTH), tensors(300, 300)
    query, key, value = (tensor.float() for tensor in exact)
    rounded = warped_attention(query, key, value, WARPS[name], profile)
    assert rounded.dtype == torch.float32
    assert torch.allclose(rounded.double(), warped_attention(*exact, WARPS[name], profile), atol=1e-5)


@pytest.mark.parametrize("warp", WARPS["all at once"])
def test_the_last_tokens_weights_are_those_it_attends_by(warp: Warp) -> None:
    query, key, _ = tensors(20, 20)
    profile = Profile.rope(100.0, WIDTH)
    weights = last_weights(query, key, warp, profile)
    expected = weights_pair_by_pair(query, key, (warp,) * HEADS, profile)[:, -1]
    assert torch.allclose(weights, expected, atol=1e-10)
