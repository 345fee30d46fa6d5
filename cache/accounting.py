"""Where cache memory goes: the pools as they were allocated, and what a count of blocks comes to in them.

On a hybrid model the cache groups overlay one allocation, and a block belongs to one group at a time, so
only the whole pool has a size. The key shadow is a pool of its own whose rows follow the cache's blocks.
"""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any, Literal, Protocol

import torch
from vllm.v1.kv_cache_interface import (
    ChunkedLocalAttentionSpec,
    KVCacheConfig,
    KVCacheGroupSpec,
    KVCacheSpec,
    SlidingWindowSpec,
    UniformTypeKVCacheSpecs,
)

Kind = Literal["full", "sliding", "shadow"]


@dataclass(frozen=True, slots=True)
class BlockCounts:
    """Blocks by state: `free` ones, and by cache group those `used` by running requests and `cached` ones."""

    free: int
    used: tuple[int, ...]
    cached: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Group:
    """Layers that share block tables; `number` is that of the cache group.

    `window` in tokens, None where a request keeps all of them; where `chunked`, it keeps those of the last
    chunk of so many. `block_size` in tokens. `block_bytes`: what one of the group's blocks holds, without
    padding.
    """

    number: int
    name: str
    kind: Kind
    layers: tuple[int, ...]
    window: int | None
    block_size: int
    block_bytes: int
    chunked: bool = False

    def blocks(self, tokens: int) -> int:
        """Blocks that a request of so many tokens holds while it decodes; without those behind its window."""
        return -(-tokens // self.block_size) - self._left(tokens) // self.block_size

    def _left(self, tokens: int) -> int:
        """The first tokens, which the last one does not see."""
        if self.window is None:
            return 0
        return (tokens - 1) // self.window * self.window if self.chunked else max(0, tokens - self.window)

    def describe(self, counts: BlockCounts) -> dict[str, Any]:
        """JSON for `GET /v1/cache`."""
        return {
            "name": self.name,
            "kind": self.kind,
            "layers": list(self.layers),
            "window": self.window,
            "bytes_used": counts.used[self.number] * self.block_bytes,
            "bytes_cached": counts.cached[self.number] * self.block_bytes,
            "bytes_per_token": self.block_bytes // self.block_size,
        }


@dataclass(frozen=True, slots=True)
class Pool:
    """One pool of blocks as allocated on one rank; `block_bytes` is what a block takes, padding included."""

    name: str
    bytes_total: int
    block_bytes: int
    groups: tuple[Group, ...]

    def request_bytes(self, tokens: int) -> int:
        """What a request of so many tokens holds while it decodes, without padding."""
        return sum(group.blocks(tokens) * group.block_bytes for group in self.groups)

    def requests(self, tokens: int) -> int:
        """How many requests of so many tokens fit at once; one block is never given out."""
        blocks = self.bytes_total // self.block_bytes - 1
        return blocks // sum(group.blocks(tokens) for group in self.groups)

    def describe(self, counts: BlockCounts) -> dict[str, Any]:
        """JSON for `GET /v1/cache`.

        Reserved is what is neither free nor held: the null block, padding, rows of a shadow whose block
        belongs to another group, and blocks that a step in flight still reads.
        """
        free = counts.free * self.block_bytes
        held = sum(
            (counts.used[group.number] + counts.cached[group.number]) * group.block_bytes
            for group in self.groups
        )
        return {
            "name": self.name,
            "bytes_total": self.bytes_total,
            "bytes_free": free,
            "bytes_reserved": self.bytes_total - free - held,
            "groups": [group.describe(counts) for group in self.groups],
        }

    def to_json(self) -> dict[str, Any]:
        """JSON types only, for the way from the worker to the API process."""
        return asdict(self)

    @staticmethod
    def from_json(value: Mapping[str, Any]) -> "Pool":
        """Inverse of `to_json`."""
        groups = tuple(Group(**{**group, "layers": tuple(group["layers"])}) for group in value["groups"])
        return Pool(**{**value, "groups": groups})


def describe_memory(pools: Sequence[Pool], engine: Mapping[str, Any]) -> dict[str, Any]:
    """JSON for `GET /v1/cache`, of the pools and of what the engine core says (`CacheMeter.describe`)."""
    told = dict(engine)
    counts = BlockCounts(**told.pop("blocks"))
    return {"pools": [pool.describe(counts) for pool in pools], **told}


def cache_pool(config: KVCacheConfig, caches: Sequence[torch.Tensor], layers: Mapping[str, int]) -> Pool:
    """The pool of vLLM's cache, read off a worker's tensors.

    `caches`: each layer's view of the allocation. `layers`: their numbers by the names of their attention.
    """
    storages = {cache.untyped_storage().data_ptr(): cache.untyped_storage().nbytes() for cache in caches}
    return replace(planned_pool(config, layers), bytes_total=sum(storages.values()))


def planned_pool(config: KVCacheConfig, layers: Mapping[str, int]) -> Pool:
    """The pool of vLLM's cache as it is going to be allocated; `layers` as for `cache_pool`."""
    # Every tensor of the configuration spans the one allocation.
    block_bytes = config.kv_cache_tensors[0].size // config.num_blocks
    kinds = [_kind(_layer_specs(group)[0]) for group in config.kv_cache_groups]
    groups = tuple(
        Group(
            number=number,
            name=kind if kinds.count(kind) == 1 else f"{kind}-{kinds[:number].count(kind)}",
            kind=kind,
            layers=tuple(sorted(layers[name] for name in group.layer_names)),
            window=_window(_layer_specs(group)[0]),
            block_size=group.kv_cache_spec.block_size,
            block_bytes=sum(spec.unpadded_page_size_bytes for spec in _layer_specs(group)),
            chunked=isinstance(_layer_specs(group)[0], ChunkedLocalAttentionSpec),
        )
        for number, (group, kind) in enumerate(zip(config.kv_cache_groups, kinds, strict=True))
    )
    return Pool("kv", block_bytes * config.num_blocks, block_bytes, groups)


class BySlot(Protocol):
    """What is kept of each slot of a layer's cache beside it."""

    @property
    def nbytes(self) -> int:
        """Bytes allocated."""
        ...

    @property
    def row_bytes(self) -> int:
        """Bytes that one slot takes."""
        ...


def shadow_pool(cache: Pool, shadows: Mapping[int, BySlot]) -> Pool:
    """The pool of what is kept beside a cache, keys and phases; `shadows` by layer number."""
    groups = []
    for group in cache.groups:
        tapped = tuple(layer for layer in group.layers if layer in shadows)
        if tapped:
            row_bytes = sum(shadows[layer].row_bytes for layer in tapped)
            block_bytes = row_bytes * group.block_size
            groups.append(
                Group(
                    number=group.number,
                    name=group.name,
                    kind="shadow",
                    layers=tapped,
                    window=group.window,
                    block_size=group.block_size,
                    block_bytes=block_bytes,
                    chunked=group.chunked,
                )
            )
    total = sum(shadow.nbytes for shadow in shadows.values())
    return Pool("shadow", total, sum(group.block_bytes for group in groups), tuple(groups))


def _layer_specs(group: KVCacheGroupSpec) -> list[KVCacheSpec]:
    spec = group.kv_cache_spec
    if isinstance(spec, UniformTypeKVCacheSpecs):
        return [spec.kv_cache_specs[name] for name in group.layer_names]
    return [spec] * len(group.layer_names)


def _kind(spec: KVCacheSpec) -> Kind:
    return "full" if _window(spec) is None else "sliding"


def _window(spec: KVCacheSpec) -> int | None:
    """Tokens that a request keeps; windowed layers that vLLM manages as full ones keep all."""
    if isinstance(spec, SlidingWindowSpec):
        window: int = spec.sliding_window
        return window
    if isinstance(spec, ChunkedLocalAttentionSpec):
        chunk: int = spec.attention_chunk_size
        return chunk
    return None
