"""vLLM's engine client as the one door of all endpoints: plain requests pass, others take two passes."""

import asyncio
import time
from collections.abc import AsyncGenerator, Mapping
from contextlib import aclosing, suppress
from dataclasses import replace
from typing import Any

from vllm.outputs import RequestOutput
from vllm.pooling_params import PoolingParams
from vllm.sampling_params import SamplingParams
from vllm.utils.async_utils import cancel_task_threadsafe
from vllm.v1.engine.output_processor import OutputProcessor, RequestOutputCollector

from cache.extra_args import ARRIVAL
from server.api_keys import ApiKeys
from server.default_profile import DefaultProfile, RunningPrompt
from server.drain import Drain
from server.embeddings import Embeddings
from server.fields import QGPMFields
from server.intent import Intent, current_intent
from server.invalidation import InvalidatingEngine
from server.locate import Source
from server.memo import RelevanceMemo
from server.metrics import Metrics
from server.preparation import Abilities, PlainReason, Preparation, prepare, refuse_forged
from server.ranking import Ranking, rank_sentences, sources_of
from server.rebuild import RebuildingOutputProcessor, Rebuilt, answering, rebuild
from server.request_record import PromptRecord, RecordStore
from server.request_trace import RequestTrace
from server.rope_choice import ServedRope, Wish
from server.score_pass import Heads, Inner, memo_key, score_arguments
from server.score_passes import Place, ScorePasses
from server.two_passes import PromptRun

_CLEANUP_SECONDS = 10


class RopewayEngine(InvalidatingEngine):
    """AsyncLLM whose `generate` gives a request the positions that it asked for."""

    abilities: Abilities
    metrics: Metrics
    output_processor: OutputProcessor
    records: RecordStore
    profiles: DefaultProfile
    drain: Drain
    api_keys: ApiKeys
    score_passes: ScorePasses
    embeddings: Embeddings | None

    def open(
        self,
        abilities: Abilities,
        rope: ServedRope | None,
        metrics: Metrics,
        memo: RelevanceMemo,
        api_keys: ApiKeys,
        embeddings: Embeddings | None,
    ) -> None:
        """Say what the loaded model and the command line allow; before the first request.

        `rope`: None for a model none of whose rules can be replaced; `embeddings`: None for a server without.
        """
        self.abilities = abilities
        self.api_keys = api_keys
        self.score_passes = ScorePasses(abilities.limits.score_passes)
        self.profiles = DefaultProfile(rope, self.model_config.max_model_len)
        self.metrics = metrics
        self.memo = memo
        self.embeddings = embeddings
        self.records = RecordStore()
        self.drain = Drain()

    @property
    def rope(self) -> ServedRope | None:
        """The rules that are served, None for a model none of whose rules can be replaced."""
        return self.profiles.served

    def generate(
        self, prompt: Any, sampling_params: SamplingParams, request_id: str, **options: Any
    ) -> AsyncGenerator[RequestOutput, None]:
        """Outputs as `AsyncLLM.generate`'s; raises RequestError at once for forged arguments."""
        refuse_forged(sampling_params.extra_args)
        if not isinstance(prompt, Mapping):
            # Input that is still being streamed has no length to choose a rule by.
            return super().generate(prompt, sampling_params, request_id, **options)
        intent = current_intent()
        arrival, began, wish, given = time.time(), time.monotonic(), None, None
        if intent is not None:
            arrival, began = intent.arrival, intent.began
            wish, given = intent.rope, intent.max_tokens_given
        record = PromptRecord(arrival, len(prompt.get("prompt_token_ids") or ()), began)
        running = self.profiles.enter(RunningPrompt(prompt, sampling_params, wish, given, record))
        inner = Inner(super().generate, prompt, running.parameters, request_id, options)
        if intent is None:
            return self._answer(running, inner)
        return self._start(running, inner, intent).outputs()

    async def _answer(self, running: RunningPrompt, inner: Inner) -> AsyncGenerator[RequestOutput, None]:
        """A request of an endpoint without our fields."""
        outputs = inner.generate(inner.prompt, running.parameters, inner.request_id, **inner.options)
        try:
            async with aclosing(answering(running, outputs)) as answer:
                async for output in answer:
                    yield output
        finally:
            self.profiles.leave(running)

    def placed(
        self,
        prompt: Any,
        parameters: SamplingParams,
        wish: Wish | None = None,
        max_tokens_given: bool | None = None,
    ) -> SamplingParams:
        """A request's parameters under the rule it wishes, by default the server's; raises RequestError."""
        return self.profiles.placed(prompt, parameters, wish, max_tokens_given)

    async def change_default(self, wish: Wish | None, rebuilds: bool) -> Rebuilt:
        """Let new requests go by another rule at once, None: by that of the start.

        Running ones finish on their own unless it `rebuilds` them. Raises EngineDeadError.
        """
        with self.memo.invalidating("profile"):
            self.profiles.change(wish)
        if not rebuilds:
            return Rebuilt()
        experts = self.vllm_config.aux_output_config.enable_return_routed_experts
        return await rebuild(self.engine_core, self.output_processor, self.profiles, experts)

    async def rank(self, inner: Inner, preparation: Preparation) -> Ranking:
        """The relevance alone, nothing remembered, of a prompt that `prepare` made ready."""
        heads = Heads(replace(inner, generate=super().generate), preparation)
        sources = sources_of(preparation, heads, self.embeddings, inner.prompt.get("cache_salt"))
        return await rank_sentences(sources, preparation.asked(), preparation.choice)

    async def prepare(
        self, prompt: Mapping[str, Any], fields: QGPMFields, source: Source
    ) -> Preparation | PlainReason:
        """Locate a prompt's parts, off the event loop; raises RequestError."""
        return await asyncio.to_thread(
            prepare, prompt, fields, source, self.abilities, self.renderer.tokenizer
        )

    async def add_request(
        self,
        request_id: str,
        prompt: Any,
        params: SamplingParams | PoolingParams,
        arrival_time: float | None = None,
        **options: Any,
    ) -> RequestOutputCollector:
        """Add a request; an answer pass counts from its user's arrival, so that TTFT holds both passes."""
        extra_args = getattr(params, "extra_args", None) or {}
        return await super().add_request(
            request_id, prompt, params, extra_args.get(ARRIVAL, arrival_time), **options
        )

    def shutdown(self, timeout: float | None = None) -> None:
        """Let what runs finish, within `timeout` seconds, and end the engine.

        Blocks; with a timeout not on the thread of the event loop. vLLM's own drain, in the core, would
        refuse the answer pass of a request whose score pass is under way. Processes always get time to clean
        up.
        """
        if hasattr(self, "drain"):  # missing where the engine did not start
            self._finish_requests(timeout or 0)
        handler = getattr(self, "output_handler", None)  # missing where the engine did not start
        if handler is not None and not self.get_num_unfinished_requests():
            # Otherwise it would report the end of its engine as a failure.
            cancel_task_threadsafe(handler)
        super().shutdown(_CLEANUP_SECONDS)

    def _finish_requests(self, seconds: float) -> None:
        finished = self.drain.finish(seconds, lambda: self.get_num_unfinished_requests() > 0)
        if finished or not seconds:  # without time to drain the core aborts what it has
            return
        aborting = asyncio.run_coroutine_threadsafe(self._abort_all(), self.output_handler.get_loop())
        with suppress(TimeoutError):
            aborting.result(_CLEANUP_SECONDS)

    async def _abort_all(self) -> None:
        await self.abort(tuple(self.output_processor.request_states), internal=True)

    def _start(self, running: RunningPrompt, inner: Inner, intent: Intent) -> PromptRun:
        record, trace = running.record, RequestTrace.silent()
        preparing, place = None, self.score_passes.place(intent.holder)
        if intent.fields.enabled:
            record.mode = "qgpm" if intent.fields.evidence is None else "evidence"
            trace = RequestTrace.of(inner.options.get("trace_headers"), record.arrival)
            inner = replace(inner, options={**inner.options, "trace_headers": trace.headers or None})
            preparing = asyncio.create_task(self._prepare_timed(inner, intent, record, trace, place))
            intent.preparing.append(preparing)
        run = PromptRun(
            inner,
            running,
            self.profiles,
            record,
            self.metrics,
            self.memo,
            intent,
            preparing,
            trace,
            place,
            self.embeddings,
        )
        self.records.add(intent.response_id(inner.request_id), record, first=intent.enter(run))
        return run

    async def _prepare_timed(
        self, inner: Inner, intent: Intent, record: PromptRecord, trace: RequestTrace, place: Place
    ) -> Preparation | PlainReason:
        """Prepare a prompt, and take its place among the score passes where it will need one."""
        started = time.perf_counter()
        with trace.stage("locate"):
            prepared = await self.prepare(inner.prompt, intent.fields, intent.source)
        record.seconds["locate"] = time.perf_counter() - started
        if isinstance(prepared, Preparation) and self._will_score(inner, prepared):
            place.take()
        return prepared

    def _will_score(self, inner: Inner, preparation: Preparation) -> bool:
        if not preparation.asks_heads:
            return False
        carried = score_arguments(inner.parameters, preparation)
        return memo_key(self.memo, inner, carried) not in self.memo

    def _run_output_handler(self) -> None:
        if not isinstance(self.output_processor, RebuildingOutputProcessor):
            stock = self.output_processor
            self.output_processor = RebuildingOutputProcessor(
                stock.tokenizer,
                log_stats=stock.log_stats,
                stream_interval=stock.stream_interval,
                tracing_enabled=stock.tracing_enabled,
                admission_stats=stock.admission_stats,
            )
        super()._run_output_handler()
