"""What the worker knows of positions: the plan in force, and each running request's placement."""

import time
from collections.abc import Iterable, Iterator, Mapping, Sequence

import numpy as np
import torch
from torch import nn
from vllm.config import VllmConfig
from vllm.distributed import get_tensor_model_parallel_rank, tensor_model_parallel_all_reduce
from vllm.v1.core.sched.output import NewRequestData, SchedulerOutput
from vllm.v1.kv_cache_interface import KVCacheConfig
from vllm.v1.worker.gpu_input_batch import InputBatch

from cache.accounting import Pool, cache_pool, shadow_pool
from cache.extra_args import modulation_of, profile_of, score_task_of
from cache.key_shadow import KeyShadow
from cache.key_tap import KeyTap
from cache.logit_bias import ForgetBias
from cache.phase_memory import PHASE_BYTES, PhaseMemory
from cache.placement import Placement
from cache.plan import LayerPlan, read_plan
from cache.relevance_heads import TappedLayer, check_heads, tapped_layers
from cache.relevance_output import RelevanceTable, pack
from cache.rotary import MappedRotary, stock_table
from cache.score_pass import ScorePass
from cache.settings import EngineSettings
from cache.step_phases import PlacedSpan, StepPhases


class PositionalState:
    """Installs the mapped rotary modules in a loaded model and serves them step by step.

    What a token is rotated by depends only on its request's `extra_args` and its absolute index, so
    chunks, preemption and resumption need nothing here.
    """

    def __init__(self, model: nn.Module, config: VllmConfig, device: torch.device) -> None:
        """Raises UnsupportedModelError or UnsupportedRotaryError, naming what is not covered."""
        settings = EngineSettings.from_config(config.additional_config)
        self.plan = read_plan(model, config, device)
        self._config = config
        self._device = device
        self._num_columns = len(settings.heads)
        self._group = _group_size(config)
        check_heads(settings.heads, self.plan, config.model_config.hf_text_config.num_attention_heads)
        self._tapped = tapped_layers(
            settings.heads,
            config.model_config.get_num_attention_heads(config.parallel_config),
            self._group,
            get_tensor_model_parallel_rank(),
        )
        self._taps = {tapped.layer: self._make_tap(tapped) for tapped in self._tapped}
        self._shadows: dict[int, KeyShadow] = {}
        self._forgetting = _forgetting(model, self.plan)
        self._memories: dict[int, PhaseMemory] = {}
        self._groups: dict[int, int] = {}
        self._placements: dict[str, Placement] = {}
        self._score_passes: dict[str, ScorePass] = {}
        self._phases = self._install(model)

    def _make_tap(self, tapped: TappedLayer) -> KeyTap:
        model = self._config.model_config
        return KeyTap(
            tapped.query_heads,
            tapped.kv_heads,
            model.get_head_size(),
            self._config.scheduler_config.max_num_batched_tokens,
            model.dtype,
            self._device,
        )

    def _install(self, model: nn.Module) -> StepPhases | None:
        """Give every layer of the main profile the module of its map; layers without a tap share theirs."""
        layers = self.plan.mapped
        if not layers:
            return None
        stocks = {layer.index: model.get_submodule(f"{layer.owner}.rotary_emb") for layer in layers}
        phases = StepPhases(
            stock_table(stocks[layers[0].index]).to(self._device),
            self._config.scheduler_config.max_num_batched_tokens,
            self._config.model_config.dtype,
            sorted({layer.map for layer in layers}),
        )
        made: dict[tuple[int, str, int], MappedRotary] = {}
        for layer in layers:
            stock, tap = stocks[layer.index], self._taps.get(layer.index)
            key = id(stock), layer.map, id(tap)
            if key not in made:
                made[key] = MappedRotary(stock, phases.rows[layer.map], phases.index, tap)
            model.get_submodule(layer.owner).rotary_emb = made[key]
        return phases

    def shadow_bytes_per_token(self) -> int:
        """Bytes beside the cache, shadow and phases, that one of its tokens costs on this rank."""
        keys = sum(tap.keys.shape[0] * tap.keys.shape[2] * tap.keys.itemsize for tap in self._taps.values())
        return keys + sum(map(self.phase_bytes, self._forgetting))

    def phase_bytes(self, layer: int) -> int:
        """Bytes of phases beside the cache that one token of a layer costs on this rank."""
        bias = self._forgetting.get(layer)
        return 0 if bias is None else bias.heads * PHASE_BYTES

    def allocate_shadows(self, cache: KVCacheConfig, batch: InputBatch) -> None:
        """Make room for the tapped keys, and the phases, of every slot of the cache."""
        names = {layer.index: layer.attention for layer in self.plan.layers}
        groups = {name: i for i, group in enumerate(cache.kv_cache_groups) for name in group.layer_names}
        sizes = [cache.num_blocks * group.kv_cache_spec.block_size for group in cache.kv_cache_groups]
        for index, bias in self._forgetting.items():
            group = groups[names[index]]
            block_size = batch.block_table[group].block_size
            self._memories[index] = PhaseMemory(sizes[group], block_size, bias.heads, self._device)
            bias.remember(self._memories[index])
        for tapped in self._tapped:
            tap = self._taps[tapped.layer]
            group = groups[names[tapped.layer]]
            slots = sizes[group]
            heads, _, width = tap.keys.shape
            self._groups[tapped.layer] = group
            self._shadows[tapped.layer] = KeyShadow(heads, slots, width, tap.keys.dtype, self._device)

    def describe_memory(self, cache: KVCacheConfig, tensors: Sequence[torch.Tensor]) -> tuple[Pool, Pool]:
        """This rank's pools: that of the cache, of which `tensors` are views, and of what lies beside it."""
        pool = cache_pool(cache, tensors, {layer.attention: layer.index for layer in self.plan.layers})
        return pool, shadow_pool(pool, {**self._shadows, **self._memories})

    def follow(self, scheduled: SchedulerOutput) -> None:
        """Forget finished requests and read what new ones carry; once per request."""
        for request_id in scheduled.finished_req_ids:
            self._placements.pop(request_id, None)
            self._score_passes.pop(request_id, None)
        for request in scheduled.scheduled_new_reqs:
            self._follow_request(request)

    def _follow_request(self, request: NewRequestData) -> None:
        extra_args = request.sampling_params.extra_args if request.sampling_params else None
        if not extra_args:
            return
        if self.plan.profile is not None:
            placement = Placement.of(modulation_of(extra_args), profile_of(extra_args), self.plan.profile)
            if placement is not None:
                self._placements[request.req_id] = placement
        task = score_task_of(extra_args)
        if task is not None:
            self._score_passes[request.req_id] = ScorePass(task)

    def before_forward(self, positions: torch.Tensor, batch: InputBatch, starts: np.ndarray) -> None:
        """Fill the step's rows. `positions` int64 [tokens]; `starts` [requests + 1], each one's first row."""
        if self._phases is None:
            return
        spans = [
            PlacedSpan(self._placements[request_id], row, token, count)
            for request_id, row, token, count in _scheduled(self._placements, batch, starts)
        ]
        self._phases.fill(positions, spans)

    def after_forward(
        self, slot_mapping: Mapping[str, torch.Tensor], batch: InputBatch, starts: np.ndarray
    ) -> dict[str, RelevanceTable]:
        """Keep the step's tapped keys and query rows; the relevance tables of the prompts that ended.

        `slot_mapping` int64 [tokens] by attention layer. Tables are float32 [sentences, heads] as bytes.
        """
        for layer, shadow in self._shadows.items():
            name = self.plan.layers[layer].attention
            shadow.write(slot_mapping[name], self._taps[layer].keys)
        tables: dict[str, RelevanceTable] = {}
        for request_id, row, token, count in _scheduled(self._score_passes, batch, starts):
            score_pass = self._score_passes[request_id]
            self._keep_queries(score_pass, row, token, count)
            index = batch.req_id_to_index[request_id]
            if token < batch.num_prompt_tokens[index] <= token + count:
                tables[request_id] = self._collect(score_pass, index, batch)
        return tables

    def _keep_queries(self, score_pass: ScorePass, row: int, token: int, count: int) -> None:
        rows = score_pass.rows_between(token, token + count)
        if rows.start == rows.stop:
            return
        steps = torch.from_numpy(score_pass.task.query_rows[rows].astype(np.int64) - token + row)
        steps = steps.to(self._device)
        for tapped in self._tapped:
            queries = self._taps[tapped.layer].queries
            for number, column in enumerate(tapped.columns):
                score_pass.keep(column, rows, queries[number].index_select(0, steps))

    def _collect(self, score_pass: ScorePass, index: int, batch: InputBatch) -> RelevanceTable:
        if self._device.type == "cuda":
            # The forward may still run, which is none of the time that reading takes.
            torch.cuda.synchronize(self._device)
        started = time.perf_counter()
        data = pack(self._table(score_pass, index, batch))
        return RelevanceTable(data, time.perf_counter() - started)

    def _table(self, score_pass: ScorePass, index: int, batch: InputBatch) -> torch.Tensor:
        table = torch.zeros(len(score_pass.task.spans), self._num_columns)
        for tapped in self._tapped:
            slots = self._slots(self._groups[tapped.layer], index, score_pass.tokens, batch)
            for head, column in zip(tapped.query_heads, tapped.columns, strict=True):
                keys = self._shadows[tapped.layer].read(tapped.kv_row(head, self._group), slots)
                table[:, column] = score_pass.signal(column, keys)
        if self._config.parallel_config.tensor_parallel_size > 1:
            table = tensor_model_parallel_all_reduce(table.to(self._device))
        return table

    def _slots(self, group: int, index: int, tokens: range, batch: InputBatch) -> torch.Tensor:
        """Cache slots of a request's tokens, read off the group's block table."""
        blocks = batch.block_table[group]
        token = np.arange(tokens.start, tokens.stop)
        table = blocks.get_numpy_array()[index]
        slots = table[token // blocks.block_size].astype(np.int64) * blocks.block_size
        return torch.from_numpy(slots + token % blocks.block_size).to(self._device)


def _forgetting(model: nn.Module, plan: LayerPlan) -> dict[int, ForgetBias]:
    """The forget gates by layer."""
    owners = {layer.index: model.get_submodule(layer.owner) for layer in plan.layers}
    biases = {index: getattr(owner, "logit_bias", None) for index, owner in owners.items()}
    return {index: bias for index, bias in biases.items() if isinstance(bias, ForgetBias)}


def _group_size(config: VllmConfig) -> int:
    model, parallel = config.model_config, config.parallel_config
    return model.get_num_attention_heads(parallel) // model.get_num_kv_heads(parallel)


def _scheduled(
    request_ids: Iterable[str], batch: InputBatch, starts: np.ndarray
) -> Iterator[tuple[str, int, int, int]]:
    """Of some requests, those in this step: id, first row, first token, number of tokens."""
    for request_id in request_ids:
        index = batch.req_id_to_index.get(request_id)
        if index is not None:
            row, end = int(starts[index]), int(starts[index + 1])
            yield request_id, row, int(batch.num_computed_tokens_cpu[index]), end - row
