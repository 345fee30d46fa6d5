"""vLLM's schedulers with block identity, uncut query rows, and the relevance carried out."""

from typing import Any

from vllm.v1.core.kv_cache_manager import KVCacheBlocks
from vllm.v1.core.sched.async_scheduler import AsyncScheduler
from vllm.v1.core.sched.output import SchedulerOutput
from vllm.v1.core.sched.request_queue import FCFSRequestQueue
from vllm.v1.core.sched.scheduler import Scheduler
from vllm.v1.engine import EngineCoreOutputs
from vllm.v1.engine.core import EngineCore
from vllm.v1.outputs import ModelRunnerOutput
from vllm.v1.request import Request

from cache import identity
from cache.cache_meter import CacheMeter
from cache.extra_args import FIRST, score_task_of
from cache.parent import follow_parent
from cache.pin import check_vllm_version
from cache.relevance_output import RelevanceRunnerOutput
from cache.settings import EngineSettings

DESCRIBE_CACHE = "ropeway_describe_cache"
"""A utility of the engine core, for the API process: `PositionalScheduling.describe_cache`."""

DESCRIBE_PROGRESS = "ropeway_describe_progress"
"""Another one: `PositionalScheduling.describe_progress`."""

_FIRST_ROW = "ropeway_first_row"


class UnsupportedEngineError(RuntimeError):
    """A setting of the engine that is not covered; the message names it."""


class PositionalScheduling(Scheduler):
    """Mixin over vLLM's schedulers; constructing it installs block identity or stops the start."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        check_vllm_version()
        identity.install()
        follow_parent()
        super().__init__(*args, **kwargs)
        EngineSettings.from_config(self.vllm_config.additional_config)
        if self.connector is not None:
            raise UnsupportedEngineError(
                "KV connectors and KV offloading bring keys that the key shadow does not hold: not covered"
            )
        self._meter = CacheMeter(self)
        self._computed = 0
        setattr(EngineCore, DESCRIBE_CACHE, _describe_cache)
        setattr(EngineCore, DESCRIBE_PROGRESS, _describe_progress)

    def add_request(self, request: Request) -> None:
        """Queue a request; an answer pass goes before those that wait, as its score pass waited for it."""
        super().add_request(request)
        parameters = request.sampling_params
        if parameters is None or not (parameters.extra_args or {}).get(FIRST):
            return
        if isinstance(self.waiting, FCFSRequestQueue) and request in self.waiting:
            self.waiting.remove_request(request)
            self.waiting.prepend_request(request)

    def _get_local_prefix_cache_hit(self, request: Request) -> tuple[KVCacheBlocks, int, int, bool]:
        """Look up cached blocks; a score pass's hit ends before its first query row.

        A hit skips the forward of its tokens, and the queries of the query rows are kept nowhere.
        """
        first_row = _first_query_row(request)
        manager = self.kv_cache_manager
        if first_row is None or not manager.prefix_cache_lookup_enabled(request):
            return super()._get_local_prefix_cache_hit(request)
        blocks, num_tokens, num_uncached = manager.coordinator.find_longest_cache_hit(
            request.block_hashes, min(first_row, request.num_tokens - 1)
        )
        # As the stock lookup does: a prefix that full layers share and windowed ones do not keep yet.
        boundary = num_tokens + num_uncached if num_uncached else 0
        return manager.create_kv_cache_blocks(blocks), num_tokens, boundary, False

    def _update_after_schedule(self, scheduler_output: SchedulerOutput) -> None:
        super()._update_after_schedule(scheduler_output)
        for scheduled in scheduler_output.scheduled_new_reqs:
            self._meter.note_hit(self.requests[scheduled.req_id], scheduled.num_computed_tokens)

    def describe_cache(self) -> dict[str, Any]:
        """The state of the cache's blocks and what was counted, as JSON types; see `CacheMeter.describe`."""
        return self._meter.describe()

    def describe_progress(self) -> tuple[int, int]:
        """Tokens computed since the start, of prompts and answers, and requests that have not finished."""
        return self._computed, self.get_num_unfinished_requests()

    def update_from_output(
        self, scheduler_output: SchedulerOutput, model_runner_output: ModelRunnerOutput
    ) -> dict[int, EngineCoreOutputs]:
        """Let each finished score pass's output carry its relevance table."""
        self._computed += scheduler_output.total_num_scheduled_tokens
        results = super().update_from_output(scheduler_output, model_runner_output)
        if isinstance(model_runner_output, RelevanceRunnerOutput):
            for outputs in results.values():
                for output in outputs.outputs:
                    table = model_runner_output.relevance.get(output.request_id)
                    if table is not None:
                        output.kv_transfer_params = table.to_params()
        return results


class RopewayScheduler(PositionalScheduling, Scheduler):
    """vLLM's plain scheduler under Ropeway."""


class RopewayAsyncScheduler(PositionalScheduling, AsyncScheduler):
    """vLLM's asynchronous scheduler under Ropeway."""


def _describe_cache(core: EngineCore) -> dict[str, Any]:
    return core.scheduler.describe_cache()


def _describe_progress(core: EngineCore) -> tuple[int, int]:
    return core.scheduler.describe_progress()


def _first_query_row(request: Request) -> int | None:
    if not hasattr(request, _FIRST_ROW):
        parameters = request.sampling_params
        task = score_task_of(parameters.extra_args if parameters else None)
        setattr(request, _FIRST_ROW, None if task is None else int(task.query_rows[0]))
    first_row: int | None = getattr(request, _FIRST_ROW)
    return first_row
