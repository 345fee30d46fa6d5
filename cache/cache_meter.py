"""What the engine core knows of its cache: the state of every block, hit tokens, evictions, capacity."""

from dataclasses import asdict, replace
from typing import Any, Literal

from vllm.v1.core.kv_cache_utils import KVCacheBlock, get_group_id, get_kv_cache_capacity
from vllm.v1.core.sched.scheduler import Scheduler
from vllm.v1.request import Request

from cache.accounting import BlockCounts
from cache.extra_args import FIRST, SCORE_TASK
from cache.identity import identity_of

HitKind = Literal["plain", "document", "protected", "modulated"]


class CacheMeter:
    """Counts as the scheduler goes; the state of the blocks is read when it is asked for."""

    def __init__(self, scheduler: Scheduler) -> None:
        coordinator = scheduler.kv_cache_manager.coordinator
        self._pool = coordinator.block_pool
        self._managers = coordinator.single_type_managers
        self._capacity = _capacity(scheduler)
        self._hits: dict[HitKind, int] = {"plain": 0, "document": 0, "protected": 0, "modulated": 0}
        self._evicted = 0
        self._count_evictions()

    def note_hit(self, request: Request, tokens: int) -> None:
        """Count the prompt tokens that a request, scheduled for the first time, found in the cache.

        Of an answer pass, those behind its protected prefix come from blocks of modulated coordinates.
        """
        extra_args = (request.sampling_params.extra_args if request.sampling_params else None) or {}
        identity = identity_of(request)
        if SCORE_TASK in extra_args:
            self._hits["document"] += tokens
        elif FIRST in extra_args or (identity is not None and identity.modulated):
            protected = tokens if identity is None else min(tokens, identity.standard_until)
            self._hits["protected"] += protected
            self._hits["modulated"] += tokens - protected
        else:
            self._hits["plain"] += tokens

    def describe(self) -> dict[str, Any]:
        """JSON types only, for the way to the API process; takes time in proportion to the blocks."""
        return {
            "blocks": asdict(self._blocks()),
            "capacity_tokens": self._capacity,
            "hit_tokens": dict(self._hits),
            "evicted_blocks": self._evicted,
        }

    def _blocks(self) -> BlockCounts:
        free, cached = 0, [0] * len(self._managers)
        for block in self._pool.blocks:
            if block.ref_cnt or block.is_null:
                continue
            if block.block_hash is None:
                free += 1
            else:
                cached[get_group_id(block.block_hash)] += 1
        used = (
            len(
                {
                    block.block_id
                    for table in manager.req_to_blocks.values()
                    for block in table
                    if not block.is_null
                }
            )
            for manager in self._managers
        )
        return BlockCounts(free, tuple(used), tuple(cached))

    def _count_evictions(self) -> None:
        evict = self._pool._maybe_evict_cached_block

        def evict_and_count(block: KVCacheBlock) -> bool:
            evicted: bool = evict(block)
            self._evicted += evicted
            return evicted

        self._pool._maybe_evict_cached_block = evict_and_count


def _capacity(scheduler: Scheduler) -> int:
    """Tokens of requests of the model's length that fit at once.

    As vLLM counts it, every group taking the blocks that it keeps of a request, but without the null block.
    """
    config = scheduler.kv_cache_config
    usable = replace(config, num_blocks=config.num_blocks - 1)
    tokens: int = get_kv_cache_capacity(scheduler.vllm_config, usable)[0]
    return tokens
