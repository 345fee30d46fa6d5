"""One prompt's way through the engine: a score pass where heads are asked, then the answer pass."""

import asyncio
import time
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from contextlib import aclosing
from dataclasses import dataclass, field
from typing import Any

import torch
from vllm.exceptions import RetryableRequestError, VLLMClientError
from vllm.outputs import RequestOutput
from vllm.sampling_params import RequestOutputKind, SamplingParams

from cache.extra_args import ARRIVAL, FIRST, MODULATION, PROFILE, SCORE_TASK
from cache.relevance_output import COLLECT_SECONDS, RELEVANCE, unpack
from positional.modulation import Modulation
from positional.qgpm import NothingToModulate, build_modulation
from positional.relevance import standardise
from server.default_profile import DefaultProfile, RunningPrompt
from server.intent import Intent
from server.memo import MemoKey, RelevanceMemo
from server.metrics import Metrics
from server.preparation import PlainReason, Preparation
from server.rebuild import answering
from server.request_log import log_request
from server.request_record import Outcome, PromptRecord
from server.request_trace import RequestTrace
from server.score_passes import Place

Generate = Callable[..., AsyncGenerator[RequestOutput, None]]

# What of a request's options its score pass shares, so that both go the same way.
_SHARED = ("lora_request", "trace_headers", "priority", "data_parallel_rank")


class ScorePassError(RuntimeError):
    """The engine ended a score pass without its relevance."""


@dataclass(frozen=True, slots=True)
class Inner:
    """The engine call of one prompt: vLLM's own `generate` and what it was called with."""

    generate: Generate
    prompt: Mapping[str, Any]
    parameters: SamplingParams
    request_id: str
    options: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Scores:
    """What a score pass found: z float64 [sentences], and how many prompt tokens were cached before it.

    `collect_seconds`: how long the worker took to read it, once the prompt was prefilled.
    """

    z: torch.Tensor
    cached: int
    collect_seconds: float


def score_arguments(parameters: SamplingParams, preparation: Preparation) -> dict[str, bytes]:
    """What the score pass carries to the worker: with the tokens, all that decides what it finds.

    It rotates by the profile of the request whose `parameters` these are.
    """
    extra_args = parameters.extra_args or {}
    profile = {PROFILE: extra_args[PROFILE]} if PROFILE in extra_args else {}
    return {SCORE_TASK: preparation.score_task().to_bytes(), **profile}


def memo_key(memo: RelevanceMemo, inner: Inner, carried: Mapping[str, bytes]) -> MemoKey:
    """Under what the memo keeps the relevance that a score pass with these `score_arguments` finds."""
    prompt, lora = inner.prompt, inner.options.get("lora_request")
    return MemoKey.of(memo.head_profile, prompt["prompt_token_ids"], prompt.get("cache_salt"), lora, carried)


async def score(inner: Inner, preparation: Preparation, carried: Mapping[str, bytes]) -> Scores:
    """Run the score pass under the request's own external id, so that one abort ends whichever runs.

    `carried`: its `score_arguments`. Raises ScorePassError, and RetryableRequestError (HTTP 503) where it was
    aborted, as at the end of a drain.
    """
    parameters = SamplingParams(
        max_tokens=1,
        temperature=0.0,
        detokenize=False,
        output_kind=RequestOutputKind.FINAL_ONLY,
        extra_args=dict(carried),
    )
    options = {name: inner.options[name] for name in _SHARED if name in inner.options}
    outputs = inner.generate(dict(inner.prompt), parameters, inner.request_id, **options)
    async with aclosing(outputs):
        output = await anext(outputs)
    if _outcome(output) == "aborted":
        raise RetryableRequestError("the request was aborted by the server before its answer began")
    carried_out = output.kv_transfer_params or {}
    table = carried_out.get(RELEVANCE)
    if table is None:
        raise ScorePassError(f"score pass of {inner.request_id} ended without relevance")
    z = standardise(torch.tensor(unpack(table, len(preparation.spans))))
    if not bool(torch.isfinite(z).all()):
        raise ScorePassError(f"score pass of {inner.request_id} read values that are not finite")
    return Scores(z, output.num_cached_tokens or 0, carried_out[COLLECT_SECONDS])


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

    def abandon(self) -> None:
        """End a run that will never start, since its request was refused."""
        self._end("rejected")

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
            relevance: Sequence[float] | torch.Tensor
            if preparation.evidence is not None:
                relevance = preparation.evidence.z
                self.record.relevance = "caller"
            else:
                relevance = await self._relevance(preparation)
                self.record.relevance = "heads"
                if not self.record.memo:
                    carried[FIRST] = True
            started = time.perf_counter()
            modulation = self._choose(preparation, relevance)
        except NothingToModulate as found:
            self.record.mode, self.record.reason = "plain", found.reason
            return carried
        if len(modulation.starts) > 1:
            carried[MODULATION] = modulation.to_bytes()
        self.record.seconds["maps"] = time.perf_counter() - started
        return carried

    async def _relevance(self, preparation: Preparation) -> torch.Tensor:
        """z of the sentences, from the memo or a score pass."""
        carried = score_arguments(self.inner.parameters, preparation)
        key = memo_key(self.memo, self.inner, carried)
        known = self.memo.get(key)
        if known is not None:
            self.record.memo = True
            return torch.frombuffer(bytearray(known), dtype=torch.float64)
        generation = self.memo.generation
        started = time.perf_counter()
        with self.trace.stage("score"):
            found = await score(self.inner, preparation, carried)
        self.place.release()
        self.record.seconds["score"] = time.perf_counter() - started
        self.record.seconds["collect"] = found.collect_seconds
        self.record.score_cached = found.cached
        self.memo.put(key, found.z.numpy().tobytes(), generation)
        return found.z

    def _choose(self, preparation: Preparation, relevance: Sequence[float] | torch.Tensor) -> Modulation:
        located = preparation.located
        modulation, scores = build_modulation(
            relevance, preparation.spans, located.num_tokens, preparation.config, preparation.ablation
        )
        self.record.choose(list(map(float, relevance)), scores, located.sentences)
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
            self._end(_outcome(output))

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
        self.record.outcome = outcome
        self.record.seconds["total"] = self.record.since_arrival()
        self.metrics.observe(self.record)
        request_id = self.inner.request_id
        log_request(self.intent.response_id(request_id), request_id, self.record)
        self.trace.end(request_id, self.record)


def _outcome(output: RequestOutput) -> Outcome:
    reasons = {completion.finish_reason for completion in output.outputs}
    if "error" in reasons:
        return "error"
    return "aborted" if "abort" in reasons else "success"
