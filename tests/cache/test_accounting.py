"""What a count of blocks comes to in pools of every layout."""

import json
from collections.abc import Sequence
from typing import Any

import pytest
import torch
from vllm.v1.kv_cache_interface import (
    ChunkedLocalAttentionSpec,
    FullAttentionSpec,
    KVCacheConfig,
    KVCacheGroupSpec,
    KVCacheSpec,
    KVCacheTensor,
    SlidingWindowSpec,
    UniformTypeKVCacheSpecs,
)

from cache.accounting import BlockCounts, Pool, cache_pool, describe_memory, planned_pool, shadow_pool
from cache.key_shadow import KeyShadow

BLOCKS = 10
BLOCK = 16
# Keys and values of one head of width 8 in float32.
TOKEN = 2 * 8 * 4


def full(**more: Any) -> FullAttentionSpec:
    return FullAttentionSpec(
        **{"block_size": BLOCK, "num_kv_heads": 1, "head_size": 8, "dtype": torch.float32, **more}
    )


def sliding(**more: Any) -> SlidingWindowSpec:
    return SlidingWindowSpec(
        block_size=BLOCK, num_kv_heads=1, head_size=8, dtype=torch.float32, sliding_window=24, **more
    )


def pool(block_bytes: int, *groups: tuple[KVCacheSpec, Sequence[int]], tail: int = 0) -> Pool:
    """The pool of some groups' layers, whose allocation is `tail` bytes longer than its blocks."""
    allocation = torch.zeros(BLOCKS * block_bytes + tail, dtype=torch.int8)
    specs = [KVCacheGroupSpec([f"layer.{layer}" for layer in layers], spec) for spec, layers in groups]
    tensors = [KVCacheTensor(BLOCKS * block_bytes, spec.layer_names, 1, 1) for spec in specs]
    numbers = {f"layer.{layer}": layer for _, layers in groups for layer in layers}
    return cache_pool(KVCacheConfig(BLOCKS, tensors, specs), [allocation[:1] for _ in numbers], numbers)


def shadow(rows: int, heads: int) -> KeyShadow:
    return KeyShadow(heads, rows, 8, torch.float32, torch.device("cpu"))


def states(described: dict[str, Any]) -> int:
    held = sum(group["bytes_used"] + group["bytes_cached"] for group in described["groups"])
    return int(held + described["bytes_free"] + described["bytes_reserved"])


def test_what_is_not_free_or_held_is_the_null_block() -> None:
    block = 2 * BLOCK * TOKEN
    described = pool(block, (full(), (0, 1))).describe(BlockCounts(4, (3,), (2,)))
    assert described["bytes_total"] == BLOCKS * block
    assert described["bytes_free"] == 4 * block
    assert described["bytes_reserved"] == block
    assert described["groups"] == [
        {
            "name": "full",
            "kind": "full",
            "layers": [0, 1],
            "window": None,
            "bytes_used": 3 * block,
            "bytes_cached": 2 * block,
            "bytes_per_token": 2 * TOKEN,
        }
    ]


def test_groups_of_one_kind_are_numbered_and_holes_are_reserved() -> None:
    page = BLOCK * TOKEN
    hybrid = pool(2 * page, (full(), (2, 5)), (sliding(), (0, 3)), (sliding(), (1,)))
    described = hybrid.describe(BlockCounts(1, (3, 0, 2), (1, 1, 1)))
    assert [(group["name"], group["window"]) for group in described["groups"]] == [
        ("full", None),
        ("sliding-0", 24),
        ("sliding-1", 24),
    ]
    assert [group["bytes_per_token"] for group in described["groups"]] == [2 * TOKEN, 2 * TOKEN, TOKEN]
    # The null block, and the hole in each of the last group's three blocks.
    assert described["bytes_reserved"] == 2 * page + 3 * page
    assert states(described) == described["bytes_total"]


def test_padded_pages_and_the_end_of_the_allocation_are_reserved() -> None:
    page = BLOCK * TOKEN + 512
    described = pool(page, (full(page_size_padded=page), (0,)), tail=96).describe(BlockCounts(9, (0,), (0,)))
    assert described["bytes_total"] == BLOCKS * page + 96
    assert described["bytes_reserved"] == page + 96
    used = pool(page, (full(page_size_padded=page), (0,)), tail=96).describe(BlockCounts(0, (9,), (0,)))
    assert used["groups"][0]["bytes_used"] == 9 * BLOCK * TOKEN
    assert used["bytes_reserved"] == page + 96 + 9 * 512


def test_layers_of_different_width_in_one_group_are_each_counted() -> None:
    specs = {"layer.0": full(), "layer.1": full(num_kv_heads=3)}
    described = pool(4 * BLOCK * TOKEN, (UniformTypeKVCacheSpecs(BLOCK, kv_cache_specs=specs), (0, 1)))
    assert described.groups[0].block_bytes == 4 * BLOCK * TOKEN
    assert described.describe(BlockCounts(9, (0,), (0,)))["groups"][0]["bytes_per_token"] == 4 * TOKEN


@pytest.mark.parametrize(
    ("spec", "kind", "window"),
    [
        (full(), "full", None),
        (full(sliding_window=24), "full", None),  # kept whole, as without the hybrid manager
        (sliding(), "sliding", 24),
        (
            ChunkedLocalAttentionSpec(
                block_size=BLOCK, num_kv_heads=1, head_size=8, dtype=torch.float32, attention_chunk_size=32
            ),
            "sliding",
            32,
        ),
    ],
)
def test_a_window_is_what_a_request_keeps(spec: KVCacheSpec, kind: str, window: int | None) -> None:
    (group,) = pool(BLOCK * TOKEN, (spec, (0,))).groups
    assert (group.kind, group.window) == (kind, window)


def test_the_shadow_follows_the_blocks_of_its_groups() -> None:
    page = BLOCK * TOKEN
    cache = pool(2 * page, (full(), (1, 3)), (sliding(), (0, 2)))
    shadows = {1: shadow(BLOCKS * BLOCK, heads=1), 3: shadow(BLOCKS * BLOCK, heads=2)}
    described = shadow_pool(cache, shadows).describe(BlockCounts(2, (3, 1), (2, 1)))
    row = 3 * 8 * 4
    assert described["bytes_total"] == (BLOCKS * BLOCK + 1) * row == sum(s.nbytes for s in shadows.values())
    (group,) = described["groups"]
    assert (group["kind"], group["layers"], group["bytes_per_token"]) == ("shadow", [1, 3], row)
    assert (group["bytes_used"], group["bytes_cached"]) == (3 * BLOCK * row, 2 * BLOCK * row)
    # The null block, two blocks of the windowed group, the spare rows.
    assert described["bytes_reserved"] == (3 * BLOCK + 1) * row
    assert states(described) == described["bytes_total"]


def test_tapped_layers_of_two_groups_have_rows_for_each_block_twice() -> None:
    page = BLOCK * TOKEN
    cache = pool(page, (full(), (0,)), (full(sliding_window=8), (1,)))
    shadows = {0: shadow(BLOCKS * BLOCK, heads=1), 1: shadow(BLOCKS * BLOCK, heads=1)}
    described = shadow_pool(cache, shadows).describe(BlockCounts(4, (2, 3), (0, 0)))
    row = 8 * 4
    assert [group["bytes_used"] for group in described["groups"]] == [2 * BLOCK * row, 3 * BLOCK * row]
    assert described["bytes_free"] == 4 * BLOCK * 2 * row
    assert states(described) == described["bytes_total"] == 2 * (BLOCKS * BLOCK + 1) * row


def test_without_heads_the_shadow_is_empty() -> None:
    described = shadow_pool(pool(BLOCK * TOKEN, (full(), (0,))), {}).describe(BlockCounts(9, (0,), (0,)))
    assert described == {
        "name": "shadow",
        "bytes_total": 0,
        "bytes_free": 0,
        "bytes_reserved": 0,
        "groups": [],
    }


def test_pools_travel_as_json() -> None:
    cache = pool(BLOCK * TOKEN, (full(), (0,)), (sliding(), (1,)))
    assert Pool.from_json(json.loads(json.dumps(cache.to_json()))) == cache


def test_what_the_engine_counts_goes_with_the_pools() -> None:
    blocks = {"free": 9, "used": [0], "cached": [0]}
    cache = pool(BLOCK * TOKEN, (full(), (0,)))
    described = describe_memory([cache], {"blocks": blocks, "capacity_tokens": 144, "evicted_blocks": 2})
    assert described["pools"] == [cache.describe(BlockCounts(9, (0,), (0,)))]
    assert (described["capacity_tokens"], described["evicted_blocks"]) == (144, 2)


@pytest.mark.parametrize(
    ("spec", "kept"),
    [
        # A window of 24: the 40th token is the first that sees nothing of the first block.
        (full(), {1: 1, 16: 1, 17: 2, 40: 3, 41: 3, 160: 10}),
        (sliding(), {1: 1, 16: 1, 17: 2, 24: 2, 39: 3, 40: 2, 41: 2, 49: 3, 56: 2, 160: 2}),
        (
            ChunkedLocalAttentionSpec(
                block_size=BLOCK, num_kv_heads=1, head_size=8, dtype=torch.float32, attention_chunk_size=32
            ),
            {1: 1, 32: 2, 33: 1, 48: 1, 49: 2, 64: 2, 65: 1},
        ),
    ],
)
def test_a_request_holds_the_blocks_that_its_last_token_sees(spec: KVCacheSpec, kept: dict[int, int]) -> None:
    made = pool(BLOCK * TOKEN, (spec, (0,)))
    assert {tokens: made.groups[0].blocks(tokens) for tokens in kept} == kept
    assert {tokens: made.request_bytes(tokens) // (BLOCK * TOKEN) for tokens in kept} == kept


def test_requests_share_the_pool_without_its_null_block() -> None:
    hybrid = pool(2 * BLOCK * TOKEN, (full(), (2, 5)), (sliding(), (0, 3)))
    # Of 40 tokens three blocks of all layers and two of those with a window; nine blocks are given out.
    assert hybrid.request_bytes(40) == 5 * 2 * BLOCK * TOKEN
    assert [hybrid.requests(tokens) for tokens in (16, 40, 200)] == [4, 1, 0]


def test_a_planned_pool_is_the_one_that_is_allocated() -> None:
    groups = [(full(), (2, 5)), (sliding(), (0, 3))]
    specs = [KVCacheGroupSpec([f"layer.{layer}" for layer in layers], spec) for spec, layers in groups]
    tensors = [KVCacheTensor(BLOCKS * 2 * BLOCK * TOKEN, spec.layer_names, 1, 1) for spec in specs]
    numbers = {f"layer.{layer}": layer for layer in (2, 5, 0, 3)}
    planned = planned_pool(KVCacheConfig(BLOCKS, tensors, specs), numbers)
    assert planned == pool(2 * BLOCK * TOKEN, *groups)
