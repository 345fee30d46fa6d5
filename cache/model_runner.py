"""vLLM's V1 model runners with positions of Ropeway's."""

from collections.abc import Callable, Mapping
from dataclasses import fields
from typing import Any

import torch
from vllm.forward_context import get_forward_context
from vllm.v1.core.sched.output import GrammarOutput, SchedulerOutput
from vllm.v1.kv_cache_interface import KVCacheConfig
from vllm.v1.outputs import ModelRunnerOutput
from vllm.v1.worker.cpu_model_runner import CPUModelRunner
from vllm.v1.worker.gpu_model_runner import AsyncGPUModelRunnerOutput, GPUModelRunner

from cache.measurement import ROWS
from cache.positional_state import PositionalState
from cache.relevance_output import RelevanceRunnerOutput, RelevanceTable


class PositionalRunning(GPUModelRunner):
    """Mixin over vLLM's runners: rows before the forward, relevance after it."""

    positional: PositionalState
    _tables: dict[str, RelevanceTable]

    def load_model(self, *args: Any, **kwargs: Any) -> None:
        """Load the model, measure its plan and install the mapped rotary modules."""
        super().load_model(*args, **kwargs)
        if self.lora_config:
            self._set_active_loras((0,) * ROWS, (0,) * ROWS, set())
        self.positional = PositionalState(self.get_model(), self.vllm_config, self.device)
        self._tables = {}

    def initialize_kv_cache(
        self, kv_cache_config: KVCacheConfig, is_profiling: bool = False, **kwargs: Any
    ) -> None:
        """Allocate the cache, then the key shadows beside it."""
        super().initialize_kv_cache(kv_cache_config, is_profiling, **kwargs)
        if not is_profiling:
            self.positional.allocate_shadows(self.kv_cache_config, self.input_batch)

    def _update_states(self, scheduler_output: SchedulerOutput) -> Callable[..., Any] | None:
        deferred: Callable[..., Any] | None = super()._update_states(scheduler_output)
        self.positional.follow(scheduler_output)
        return deferred

    def _model_forward(
        self,
        input_ids: torch.Tensor | None,
        positions: torch.Tensor,
        *args: Any,
        **kwargs: Any,
    ) -> Any:
        starts = self.query_start_loc.np
        self.positional.before_forward(positions, self.input_batch, starts)
        output = super()._model_forward(input_ids, positions, *args, **kwargs)
        slot_mapping = get_forward_context().slot_mapping
        if not isinstance(slot_mapping, Mapping):
            raise TypeError("microbatch overlap gives slots per microbatch, which the key shadow cannot use")
        self._tables |= self.positional.after_forward(slot_mapping, self.input_batch, starts)
        return output

    def sample_tokens(self, grammar_output: GrammarOutput | None) -> Any:
        """Sample, and let the step's output carry the relevance tables that it completed."""
        output = super().sample_tokens(grammar_output)
        if not self._tables:
            return output
        tables, self._tables = self._tables, {}
        if isinstance(output, ModelRunnerOutput):
            return _with_tables(output, tables)
        if isinstance(output, AsyncGPUModelRunnerOutput):
            output._model_runner_output = _with_tables(output._model_runner_output, tables)
            return output
        raise TypeError(f"a step's output of type {type(output).__name__} cannot carry relevance")


def _with_tables(output: ModelRunnerOutput, tables: dict[str, RelevanceTable]) -> RelevanceRunnerOutput:
    values = {field.name: getattr(output, field.name) for field in fields(ModelRunnerOutput)}
    return RelevanceRunnerOutput(**values, relevance=tables)


class RopewayCPUModelRunner(PositionalRunning, CPUModelRunner):
    """The CPU's runner under Ropeway."""


class RopewayGPUModelRunner(PositionalRunning, GPUModelRunner):
    """The GPU's V1 runner under Ropeway; not tested on a GPU."""
