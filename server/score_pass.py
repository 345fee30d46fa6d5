"""The score pass: a prompt is prefilled plainly, as a request for one token, and its heads are read."""

import time
from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import aclosing
from dataclasses import dataclass
from typing import Any, ClassVar

import torch
from vllm.exceptions import RetryableRequestError
from vllm.outputs import RequestOutput
from vllm.sampling_params import RequestOutputKind, SamplingParams

from cache.extra_args import PROFILE, SCORE_TASK
from cache.relevance_output import COLLECT_SECONDS, RELEVANCE, unpack
from positional.relevance import standardise, unity
from positional.sources.contract import Asked, Reading, SourceName
from server.memo import MemoKey, RelevanceMemo
from server.preparation import Preparation
from server.request_record import Outcome
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


def outcome_of(output: RequestOutput) -> Outcome:
    """How a finished pass ended."""
    reasons = {completion.finish_reason for completion in output.outputs}
    if "error" in reasons:
        return "error"
    return "aborted" if "abort" in reasons else "success"


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


@dataclass(frozen=True, slots=True)
class Heads:
    """The model's heads as a source of relevance, of one prompt."""

    inner: Inner
    preparation: Preparation
    name: ClassVar[SourceName] = "heads"

    async def read(self, asked: Asked) -> Reading:
        """Run the score pass under the request's own external id, so that one abort ends whichever runs.

        `cost`: how many tokens of the prompt were `cached` before it, and `collect`, how many seconds the
        worker took to read it, once the prompt was prefilled. Raises ScorePassError, and
        RetryableRequestError (HTTP 503) where it was aborted, as at the end of a drain.
        """
        inner = self.inner
        started = time.perf_counter()
        parameters = SamplingParams(
            max_tokens=1,
            temperature=0.0,
            detokenize=False,
            output_kind=RequestOutputKind.FINAL_ONLY,
            extra_args=dict(score_arguments(inner.parameters, self.preparation)),
        )
        options = {name: inner.options[name] for name in _SHARED if name in inner.options}
        outputs = inner.generate(dict(inner.prompt), parameters, inner.request_id, **options)
        async with aclosing(outputs):
            output = await anext(outputs)
        if outcome_of(output) == "aborted":
            raise RetryableRequestError("the request was aborted by the server before its answer began")
        carried_out = output.kv_transfer_params or {}
        table = carried_out.get(RELEVANCE)
        if table is None:
            raise ScorePassError(f"score pass of {inner.request_id} ended without relevance")
        signals = torch.tensor(unpack(table, len(self.preparation.spans)))
        z = standardise(signals)
        if not bool(torch.isfinite(z).all()):
            raise ScorePassError(f"score pass of {inner.request_id} read values that are not finite")
        cost = {"cached": output.num_cached_tokens or 0, "collect": carried_out[COLLECT_SECONDS]}
        return Reading(self.name, z, time.perf_counter() - started, cost, unity(signals, z))


@dataclass(frozen=True, slots=True)
class RememberedHeads:
    """The model's heads, asked only where the memo does not know what they say.

    `place`: of the score pass, given back behind it.
    """

    heads: Heads
    memo: RelevanceMemo
    trace: RequestTrace
    place: Place
    name: ClassVar[SourceName] = "heads"

    async def read(self, asked: Asked) -> Reading:
        """As `Heads.read`; where it was remembered, `cost` holds `memo` alone."""
        started = time.perf_counter()
        carried = score_arguments(self.heads.inner.parameters, self.heads.preparation)
        key = memo_key(self.memo, self.heads.inner, carried)
        known = self.memo.get(key)
        if known is not None:
            values = torch.frombuffer(bytearray(known), dtype=torch.float64)
            seconds = time.perf_counter() - started
            return Reading(self.name, values[:-1], seconds, {"memo": True}, float(values[-1]))
        generation = self.memo.generation
        with self.trace.stage("score"):
            found = await self.heads.read(asked)
        self.place.release()
        values = torch.cat([found.z, torch.tensor([found.unity], dtype=torch.float64)])
        self.memo.put(key, values.numpy().tobytes(), generation)
        return found
