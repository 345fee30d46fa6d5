"""The reference attention: torch's own where torch has it, and what every positional layer must hold."""

import math
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from positional.attention import BlindQueryError, Rotation, attend
from positional.masks import visible
from positional.phases import rotate, rotation_rows
from positional.profile import Pairing, Profile

DTYPES = pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
PROFILES: dict[str, Profile | None] = {
    "NoPE": None,
    "half": Profile.rope(1e4, 16),
    "interleaved": Profile.rope(1e4, 16, "interleaved"),
    "partial": Profile.rope(1e4, 4),
}
LAYERS = pytest.mark.parametrize("layer", PROFILES)
names = st.sampled_from(sorted(PROFILES))
windows = st.one_of(st.none(), st.integers(1, 30))
Tensors = tuple[torch.Tensor, torch.Tensor, torch.Tensor]


def tensors(count: int, *, heads: int = 4, kv_heads: int = 2, seed: int = 0, width: int = 16) -> Tensors:
    """Queries, keys and values, float64, of `count` tokens."""
    generator = torch.Generator().manual_seed(seed)
    shapes = [(count, heads, width), (count, kv_heads, width), (count, kv_heads, 6)]
    query, key, value = (torch.randn(shape, generator=generator, dtype=torch.float64) for shape in shapes)
    return query, key, value


def layer_of(
    name: str, data: Tensors, *, shift: int = 0, window: int | None = None, rows: slice = slice(None)
) -> torch.Tensor:
    """The attention of a sequence whose first token is at `shift`; only some rows of its queries."""
    query, key, value = data
    places = torch.arange(len(key)) + shift
    profile = PROFILES[name]
    rotation = None if profile is None else Rotation.of(profile, places[rows], places)
    return attend(query[rows], key, value, visible(places[rows], places, window=window), rotation)


@DTYPES
@pytest.mark.parametrize("kv_heads", [1, 2, 4])
@pytest.mark.parametrize("window", [None, 5])
def test_it_is_torchs_attention_of_rotated_queries_and_keys(
    dtype: torch.dtype, kv_heads: int, window: int | None
) -> None:
    query, key, value = (tensor.to(dtype) for tensor in tensors(20, kv_heads=kv_heads))
    places, profile = torch.arange(20), Profile.rope(1e4, 16)
    mask = visible(places, places, window=window)
    rows = rotation_rows(places[:, None].expand(-1, 8), profile, dtype)
    turned = [rotate(tensor, rows, "half").transpose(0, 1) for tensor in (query, key)]
    theirs = torch.nn.functional.scaled_dot_product_attention(
        *turned, value.transpose(0, 1), attn_mask=mask, enable_gqa=True
    )
    ours = attend(query, key, value, mask, Rotation.of(profile, places, places))
    assert ours.dtype == dtype
    assert torch.allclose(ours, theirs.transpose(0, 1), atol=1e-5 if dtype == torch.float32 else 1e-12)


def test_keys_that_score_alike_are_read_alike() -> None:
    key = torch.tensor([[[1.0, 0.0]], [[1.0, 0.0]], [[1.0, 0.0]]])
    value = torch.tensor([[[3.0]], [[5.0]], [[40.0]]])
    mask = torch.tensor([[True, True, False], [False, False, True]])
    assert attend(key[:2], key, value, mask)[:, 0, 0].tolist() == [4.0, 40.0]


def test_the_weight_of_a_key_is_the_exponential_of_its_score() -> None:
    query = torch.tensor([[[2.0, 0.0, 0.0, 0.0]]])
    key = torch.tensor([[[1.0, 0.0, 0.0, 0.0]], [[0.0, 1.0, 0.0, 0.0]]])
    value = torch.tensor([[[1.0]], [[0.0]]])
    mask = torch.ones(1, 2, dtype=torch.bool)

    def read(**more: Any) -> float:
        return attend(query, key, value, mask, **more).item()

    assert read() == pytest.approx(1 / (1 + math.exp(-1)))
    assert read(scale=1.0) == pytest.approx(1 / (1 + math.exp(-2)))
    assert read(scale=1.0, query_scale=torch.tensor([1.5])) == pytest.approx(1 / (1 + math.exp(-3)))


def test_neighbouring_heads_share_a_kv_head() -> None:
    query, key, value = tensors(10)
    mask = torch.ones(10, 10, dtype=torch.bool)
    whole = attend(query, key, value, mask)
    for head in range(4):
        kv = slice(head // 2, head // 2 + 1)
        alone = attend(query[:, head : head + 1], key[:, kv], value[:, kv], mask)
        assert torch.allclose(whole[:, head], alone[:, 0], atol=1e-12)


@given(names, windows, st.integers(2, 40), st.data())
def test_a_prompt_in_chunks_is_the_whole_prompt(name: str, window: int | None, count: int, data: Any) -> None:
    """vllm#10388, mlx-vlm#1755: all positions were fed to each chunk."""
    whole = layer_of(name, tensors(count), window=window)
    cut = data.draw(st.integers(1, count - 1))
    query, key, value = tensors(count)
    first = layer_of(name, (query[:cut], key[:cut], value[:cut]), window=window)
    second = layer_of(name, tensors(count), window=window, rows=slice(cut, count))
    assert torch.allclose(torch.cat((first, second)), whole, atol=1e-12)


@LAYERS
@pytest.mark.parametrize("window", [None, 7])
@pytest.mark.parametrize("shift", [1, 100, 8192])
def test_a_common_shift_changes_nothing(layer: str, window: int | None, shift: int) -> None:
    moved = layer_of(layer, tensors(25), window=window, shift=shift)
    assert torch.allclose(moved, layer_of(layer, tensors(25), window=window), atol=1e-9)


@pytest.mark.parametrize("shift", [1, 100, 8192])
def test_layers_without_rotation_do_not_know_where_they_are(shift: int) -> None:
    assert torch.equal(layer_of("NoPE", tensors(25), shift=shift), layer_of("NoPE", tensors(25)))


@pytest.mark.parametrize("pairing", ["half", "interleaved"])
def test_a_shift_of_the_keys_alone_is_seen(pairing: Pairing) -> None:
    query, key, value = tensors(12)
    places, profile = torch.arange(12), Profile.rope(1e4, 16, pairing)
    mask = visible(places, places)
    own = attend(query, key, value, mask, Rotation.of(profile, places, places))
    shifted = attend(query, key, value, mask, Rotation.of(profile, places, places + 1))
    assert (own - shifted).abs().max() > 0.01


@LAYERS
def test_a_cached_key_and_a_decoded_query_have_places_of_their_own(layer: str) -> None:
    whole = layer_of(layer, tensors(30), window=9)
    query, key, value = tensors(30)
    places, profile = torch.arange(30), PROFILES[layer]
    for token in (5, 9, 29):
        kept = slice(max(0, token - 8), token + 1)
        here = places[token : token + 1]
        rotation = None if profile is None else Rotation.of(profile, here, places[kept])
        mask = visible(here, places[kept], window=9)
        decoded = attend(query[token : token + 1], key[kept], value[kept], mask, rotation)
        assert torch.allclose(decoded[0], whole[token], atol=1e-12)


@given(names, st.integers(1, 20), st.integers(0, 29))
def test_a_windowed_layer_reads_nothing_outside(name: str, window: int, token: int) -> None:
    query, key, value = tensors(30)
    other_query, other_key, other_value = tensors(30, seed=1)
    inside = slice(max(0, token - window + 1), token + 1)
    other_key[inside], other_value[inside], other_query[token] = key[inside], value[inside], query[token]
    one = layer_of(name, (query, key, value), window=window)
    other = layer_of(name, (other_query, other_key, other_value), window=window)
    assert torch.equal(one[token], other[token])


@LAYERS
def test_the_first_token_is_read_by_global_layers_and_not_through_a_window(layer: str) -> None:
    """vllm#11357: a missing window fell back to one on global layers."""
    data = tensors(40)
    changed = data[2].clone()
    changed[0] += 10
    for window, reads in ((None, True), (41, True), (40, True), (39, False), (8, False)):
        before, after = (layer_of(layer, (*data[:2], v), window=window)[39] for v in (data[2], changed))
        assert torch.equal(before, after) != reads


def test_dimensions_beyond_the_rotary_width_score_by_content_alone() -> None:
    query, key, value = tensors(10)
    query[..., :4] = 0
    assert torch.allclose(
        layer_of("partial", (query, key, value)), layer_of("NoPE", (query, key, value)), atol=1e-12
    )


def test_planes_may_have_places_of_their_own() -> None:
    query, key, value = tensors(10)
    profile, mask = Profile.rope(1e4, 16), visible(torch.arange(10), torch.arange(10))
    places = torch.rand(10, 8, dtype=torch.float64).cumsum(dim=0)
    common = Rotation.of(profile, places + 3.5, places + 3.5)
    own = attend(query, key, value, mask, Rotation.of(profile, places, places))
    assert torch.allclose(own, attend(query, key, value, mask, common), atol=1e-9)
    unit = attend(query, key, value, mask, Rotation.of(profile, torch.arange(10), torch.arange(10)))
    assert (own - unit).abs().max() > 0.01


def test_a_query_that_may_read_nothing_is_refused() -> None:
    query, key, value = tensors(3)
    mask = torch.tensor([[True] * 3, [False] * 3, [False] * 3])
    with pytest.raises(BlindQueryError, match="1, 2") as error:
        attend(query, key, value, mask)
    assert error.value.queries == (1, 2)
