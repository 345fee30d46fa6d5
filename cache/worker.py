"""vLLM's workers with Ropeway's model runner and the key shadow inside the memory budget."""

from collections import Counter
from typing import Any

from vllm.v1.worker import cpu_worker
from vllm.v1.worker.cpu_worker import CPUWorker
from vllm.v1.worker.gpu_worker import Worker

from cache.compilation import forgive_failures
from cache.model_runner import PositionalRunning, RopewayCPUModelRunner, RopewayGPUModelRunner
from cache.pin import check_vllm_version
from cache.registration import register_architectures

register_architectures()


class PositionalWorker(Worker):
    """Mixin over vLLM's workers."""

    model_runner: PositionalRunning

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        forgive_failures()

    def determine_available_memory(self) -> int:
        """Bytes for the KV cache: what vLLM finds, less the share that the key shadow will take."""
        available: int = super().determine_available_memory()
        cache = self._pool_bytes_per_token()
        shadow = self.model_runner.positional.shadow_bytes_per_token()
        return int(available * cache / (cache + shadow))

    def _pool_bytes_per_token(self) -> float:
        """KV bytes that one token of a cache group costs; groups of a hybrid model overlay one pool."""
        specs = self.model_runner.get_kv_cache_spec().values()
        per_layer = {spec: spec.page_size_bytes / spec.block_size for spec in specs}
        return min(count * per_layer[spec] for spec, count in Counter(specs).items())

    def describe_plan(self) -> dict[str, Any]:
        """The layer plan, which is there before the cache is."""
        positional = self.model_runner.positional
        plan = positional.plan.describe()
        for layer in plan["layers"]:
            layer["cache"]["phase_bytes"] = positional.phase_bytes(layer["layer"])
        return plan

    def describe_positions(self) -> dict[str, Any]:
        """The layer plan, and this rank's pools of memory; called by the API process at start."""
        runner = self.model_runner
        pools = runner.positional.describe_memory(runner.kv_cache_config, runner.kv_caches)
        return {"plan": self.describe_plan(), "pools": [pool.to_json() for pool in pools]}


class RopewayCPUWorker(PositionalWorker, CPUWorker):
    """The CPU's worker under Ropeway."""

    def init_device(self) -> None:
        """Build the worker's device state around Ropeway's runner; vLLM names its own by a global."""
        check_vllm_version()
        stock = cpu_worker.CPUModelRunner
        cpu_worker.CPUModelRunner = RopewayCPUModelRunner
        try:
            super().init_device()
        finally:
            cpu_worker.CPUModelRunner = stock


class RopewayGPUWorker(PositionalWorker, Worker):
    """The GPU's worker under Ropeway; not tested on a GPU."""

    def _make_model_runner(self) -> RopewayGPUModelRunner:
        check_vllm_version()
        return RopewayGPUModelRunner(self.vllm_config, self.device)
