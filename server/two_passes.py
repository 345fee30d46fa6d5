"""One prompt's way through the engine: its relevance, read in a score pass or without, then its answer."""

import asyncio
import time
from collections.abc import AsyncGenerator
from contextlib import aclosing
from dataclasses import dataclass, field
from typing import Any

from vllm.exceptions import RetryableRequestError, VLLMClientError
from vllm.outputs import RequestOutput
from vllm.sampling_params import RequestOutputKind, SamplingParams

from cache.extra_args import ARRIVAL, FIRST, MODULATION
from positional.modulation import Modulation
from positional.qgpm import NothingToModulate
from positional.sources.contract import Reading
from server.default_profile import DefaultProfile, RunningPrompt
from server.embeddings import Embeddings
from server.intent import Intent
from server.memo import RelevanceMemo
from server.metrics import Metrics
from server.preparation import PlainReason, Preparation
from server.ranking import Ranking, rank_sentences, sources_of
from server.rebuild import answering
from server.request_log import log_request
from server.request_record import Outcome, PromptRecord
from server.request_trace import RequestTrace
from server.score_pass import Heads, Inner, RememberedHeads, outcome_of
from server.score_passes import Place


@dataclass(slots=True)
class PromptRun:
    """A user's prompt from the door to its last token; `record` says what was done."""

    inner: Inner
    running: RunningPrompt
    profiles: DefaultProfile
    record: PromptRecord
    metrics: Metrics
    memo: RelevanceMemo
    intent: Intent
    preparing: "asyncio.Task[Preparation | PlainReason] | None"
    trace: RequestTrace
    place: Place
    embeddings: Embeddings | None
    _delta_tokens: int = field(default=0)
    _submitted: float = field(default=0.0)

    async def outputs(self) -> AsyncGenerator[RequestOutput, None]:
        """vLLM's outputs of the answer pass; usage counts as cached what no pass of this request computed."""
        try:
            await self.intent.prepared()
            parameters = await self._answer_parameters()
            self._submitted = self.record.since_arrival()
            answer = self.inner.generate(
                self.inner.prompt, parameters, self.inner.request_id, **self.inner.options
            )
            async with aclosing(answering(self.running, answer)) as outputs:
                async for output in outputs:
                    self._note(output)
                    yield output
        except (asyncio.CancelledError, GeneratorExit):
            self._end("aborted")
            raise
        except RetryableRequestError:
            self._end("aborted")
            raise
        except VLLMClientError:
            self._end("rejected")
            raise
        except BaseException:
            self._end("error")
            raise
        finally:
            self._end("aborted")

    def abandon(self, outcome: Outcome) -> None:
        """End a run that will never start, since its request was refused or its client has left."""
        self._end(outcome)

    async def _answer_parameters(self) -> SamplingParams:
        """The user's sampling parameters, with the coordinates that the answer is to have."""
        carried: dict[str, Any] = {}
        preparation = None if self.preparing is None else await self.preparing
        if isinstance(preparation, PlainReason):
            self.record.reason = preparation.reason
            self.record.mode = "plain"
        elif preparation is not None:
            carried = await self._modulate(preparation)
        # Read last: the server's default may change while a score pass runs.
        placed = self.running.parameters
        if not carried:
            return placed
        parameters = placed.clone()
        parameters.extra_args = {**(parameters.extra_args or {}), **carried, ARRIVAL: self.record.arrival}
        return parameters

    async def _modulate(self, preparation: Preparation) -> dict[str, Any]:
        self.record.sentences = len(preparation.spans)
        carried: dict[str, Any] = {}
        try:
            if len(preparation.spans) < 2:
                raise NothingToModulate("too_few_sentences")
            ranking = await self._rank(preparation)
            if self.record.score_cached is not None:
                carried[FIRST] = True
            started = time.perf_counter()
            modulation = self._choose(preparation, ranking)
        except NothingToModulate as found:
            self.record.mode, self.record.reason = "plain", found.reason
            return carried
        if len(modulation.starts) > 1:
            carried[MODULATION] = modulation.to_bytes()
        self.record.seconds["maps"] = time.perf_counter() - started
        return carried

    async def _rank(self, preparation: Preparation) -> Ranking:
        """What the chosen sources say of the sentences."""
        heads = RememberedHeads(Heads(self.inner, preparation), self.memo, self.trace, self.place)
        sources = sources_of(preparation, heads, self.embeddings, self.inner.prompt.get("cache_salt"))
        self.record.relevance = preparation.choice.name
        ranking = await rank_sentences(sources, preparation.asked(), preparation.choice)
        self.record.ranking = ranking.describe()
        self.metrics.ranked(ranking)
        for reading in ranking.readings:
            if reading.source == "heads":
                self._note_heads(reading)
        return ranking

    def _note_heads(self, reading: Reading) -> None:
        if "memo" in reading.cost:
            self.record.memo = True
            return
        self.record.seconds |= {"score": reading.seconds, "collect": reading.cost["collect"]}
        self.record.score_cached = int(reading.cost["cached"])

    def _choose(self, preparation: Preparation, ranking: Ranking) -> Modulation:
        relevance = ranking.z
        verdict = preparation.judge(ranking.readings, relevance)
        self.record.guard = verdict
        self.metrics.guarded(verdict.decision)
        modulation, scores = preparation.modulation(relevance, verdict.decision)
        self.record.choose(relevance, scores, preparation.located.sentences)
        return modulation

    def _note(self, output: RequestOutput) -> None:
        record = self.record
        if output.num_cached_tokens is not None:
            record.answer_cached = output.num_cached_tokens
            if record.score_cached is not None:
                output.num_cached_tokens = min(output.num_cached_tokens, record.score_cached)
        counts = [len(completion.token_ids) for completion in output.outputs]
        if self.inner.parameters.output_kind == RequestOutputKind.DELTA:
            self._delta_tokens += sum(counts)
            record.output_tokens = self._delta_tokens
        else:
            record.output_tokens = sum(counts)
        if "first_token" not in record.seconds and record.output_tokens:
            first_token = self._first_token_seconds(output)
            record.seconds |= {"answer": first_token - self._submitted, "first_token": first_token}
            self.metrics.first_token(record)
        if output.finished:
            self._end(outcome_of(output))

    def _first_token_seconds(self, output: RequestOutput) -> float:
        """From the user's arrival to the first token, also where only a final output is handed out."""
        metrics = output.metrics
        streamed = self.inner.parameters.output_kind == RequestOutputKind.DELTA
        if streamed or metrics is None or not metrics.first_token_ts:
            return self.record.since_arrival()
        # By the engine core's monotonic clock, which is this machine's; vLLM's latency is the wall clock's.
        return float(metrics.first_token_ts - self.record.began)

    def _end(self, outcome: Outcome) -> None:
        if self.record.outcome != "running":
            return
        self.place.release()
        self.profiles.leave(self.running)
        self.intent.leave(self)
        self.record.outcome = outcome
        self.record.seconds["total"] = self.record.since_arrival()
        self.metrics.observe(self.record)
        request_id = self.inner.request_id
        log_request(self.intent.response_id(request_id), request_id, self.record)
        self.trace.end(request_id, self.record)
