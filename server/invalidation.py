"""The changes of an engine that make remembered relevance stale."""

from typing import Any

from vllm.lora.request import LoRARequest
from vllm.v1.engine import PauseMode
from vllm.v1.engine.async_llm import AsyncLLM

from server.memo import RelevanceMemo

# What workers are asked without a change of what they compute. Any other call, of a worker extension too,
# may change weights.
_READS = frozenset(
    {
        "check_health",
        "compute_weight_checksums",
        "describe_positions",
        "get_model_inspection",
        "get_supported_tasks",
        "init_weight_transfer_engine",
        "list_loras",
        "pin_lora",
        "profile",
        "shutdown_weight_transfer_engine",
    }
)
_DISCARDS_WEIGHTS = 2  # the level of sleep


class InvalidatingEngine(AsyncLLM):
    """AsyncLLM that drops from its memo what a change makes stale."""

    memo: RelevanceMemo

    async def reset_prefix_cache(
        self, reset_running_requests: bool = False, reset_connector: bool = False
    ) -> bool:
        """Forget cached blocks, and all relevance with them."""
        with self.memo.invalidating("reset"):
            return await super().reset_prefix_cache(reset_running_requests, reset_connector)

    async def pause_generation(self, *, mode: PauseMode = "abort", clear_cache: bool = True) -> None:
        """Pause; `clear_cache` resets the prefix cache."""
        if not clear_cache:
            await super().pause_generation(mode=mode, clear_cache=clear_cache)
            return
        with self.memo.invalidating("reset"):
            await super().pause_generation(mode=mode, clear_cache=clear_cache)

    async def sleep(self, level: int = 1, mode: PauseMode = "abort") -> None:
        """Pause (level 0), give up the cache (1), and the weights too (2)."""
        if level < 1:
            await super().sleep(level, mode)
            return
        with self.memo.invalidating("weights" if level >= _DISCARDS_WEIGHTS else "reset"):
            await super().sleep(level, mode)

    async def release_kv_cache_memory(self) -> None:
        """Give up the cache, and all relevance with it."""
        with self.memo.invalidating("reset"):
            await super().release_kv_cache_memory()

    async def collective_rpc(
        self,
        method: str,
        timeout: float | None = None,
        args: tuple[Any, ...] = (),
        kwargs: dict[str, Any] | None = None,
    ) -> Any:
        """Call the workers; every change of weights comes this way, vLLM's weight updates included."""
        if method in _READS:
            return await super().collective_rpc(method, timeout, args, kwargs)
        with self.memo.invalidating("weights"):
            return await super().collective_rpc(method, timeout, args, kwargs)

    async def add_lora(self, lora_request: LoRARequest) -> bool:
        """Load an adapter, or another one in its place; relevance read under its number goes."""
        with self.memo.invalidating("lora", lora_request.lora_int_id):
            return await super().add_lora(lora_request)

    async def remove_lora(self, lora_id: int) -> bool:
        """Unload an adapter; relevance read under its number goes."""
        with self.memo.invalidating("lora", lora_id):
            return await super().remove_lora(lora_id)
