"""Running answers go on as new inner requests: the same stream, other positions.

A block's key is made of what its request carried when it came, so a request never changes under its
engine: it is ended there, and what it has generated so far becomes part of a new request's prompt. What
the user sees (text, log-probabilities, counts, first token) is kept by vLLM's `RequestState`, which moves
to the new request's id. Outputs still on their way under the old id belong to nobody and are dropped.
"""

import asyncio
from collections import Counter, defaultdict
from collections.abc import AsyncGenerator, Iterator, Mapping, Sequence
from contextlib import aclosing
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Any
from weakref import WeakKeyDictionary

import msgspec
from vllm.outputs import RequestOutput
from vllm.sampling_params import SamplingParams
from vllm.utils import random_uuid
from vllm.v1.engine import EngineCoreRequest, EngineCoreRequestType
from vllm.v1.engine.core_client import AsyncMPClient
from vllm.v1.engine.output_processor import RequestState

from cache.extra_args import FIRST, PROFILE, reserved_names
from server.default_profile import DefaultProfile, RunningPrompt
from server.request_error import RequestError
from server.score_statistics import UserRequestsOutputProcessor

# What a new request would not know of the tokens before it, or would tell the user twice.
_ABSENT = (
    "structured_outputs",
    "seed",
    "thinking_token_budget",
    "repetition_detection",
    "trace_decode_token_ids",
    "prompt_logprobs",
    "prompt_logprob_token_ids",
)
_NEUTRAL = {"presence_penalty": 0.0, "frequency_penalty": 0.0, "repetition_penalty": 1.0}


_entering: ContextVar[RunningPrompt | None] = ContextVar("ropeway_entering", default=None)


async def answering(
    running: RunningPrompt, outputs: AsyncGenerator[RequestOutput, None]
) -> AsyncGenerator[RequestOutput, None]:
    """The outputs of an answer, whose request becomes known as the running prompt's."""
    async with aclosing(outputs):
        # vLLM adds the request before its first output; nothing is yielded in between.
        token = _entering.set(running)
        try:
            output = await anext(outputs, None)
        finally:
            _entering.reset(token)
        if output is None:
            return
        yield output
        async for output in outputs:
            yield output


class CannotGoOnError(Exception):
    """A running answer that has to finish as it is; `reason`: the name of what holds it."""

    def __init__(self, reason: str) -> None:
        self.reason = reason
        super().__init__(reason)


@dataclass(frozen=True, slots=True)
class InnerRequest:
    """An answer that the engine works on.

    `first`: its request as it came; `state`: what the user has of it; `running`: the user's prompt.
    """

    first: EngineCoreRequest
    state: RequestState
    running: RunningPrompt

    @property
    def parameters(self) -> SamplingParams:
        """The sampling parameters that it came with."""
        return self.first.sampling_params

    @property
    def extra_args(self) -> Mapping[str, Any]:
        """What it carried when it came."""
        return self.parameters.extra_args or {}

    @property
    def output(self) -> list[int]:
        """The tokens generated so far, as the user counts them."""
        return self.state.detokenizer.output_token_ids

    def obstacle(self, returns_experts: bool) -> str | None:
        """What of its state a new request cannot have, by the name of its parameter; None for nothing.

        `returns_experts`: the model returns the experts of every token, prompt included.
        """
        request, parameters = self.first, self.parameters
        if self.state.parent_req is not None:
            return "n"
        for name in _ABSENT:
            if getattr(parameters, name) is not None:
                return name
        for name, neutral in _NEUTRAL.items():
            if getattr(parameters, name) != neutral:
                return name
        # Custom logits processors may keep what they like of a request that talks to them.
        carried = {
            "bad_words": parameters.bad_words,
            "watermarking": parameters.watermarking,
            "vllm_xargs": set(self.extra_args) - set(reserved_names(self.extra_args)),
            "streamed_input": request.resumable,
            "prompt_embeds": request.prompt_token_ids is None or request.prompt_embeds is not None,
            "multimodal": request.mm_features,
            "routed_experts": returns_experts,
        }
        return next((name for name, present in carried.items() if present), None)

    def continued(self, max_tokens: int, profile: bytes | None) -> EngineCoreRequest:
        """The request that goes on where this one is: its prompt and output, and the rest of its budget.

        `max_tokens` counts from the end of the user's prompt, and is more than what has been generated. A
        modulation stays: generated tokens stand in its last segment, which ends nowhere.
        """
        done = self.output
        parameters = self.parameters.clone()
        parameters.max_tokens = max_tokens - len(done)
        parameters.min_tokens = max(parameters.min_tokens - len(done), 0)
        carried = {name: value for name, value in self.extra_args.items() if name != PROFILE}
        if profile is not None:
            carried[PROFILE] = profile
        # It was served already, so it does not queue behind those that were not.
        parameters.extra_args = {**carried, FIRST: True}
        return msgspec.structs.replace(
            self.first,
            request_id=f"{self.first.external_req_id}-{random_uuid():.8}",
            prompt_token_ids=[*self.first.prompt_token_ids, *done],
            sampling_params=parameters,
        )


class RebuildingOutputProcessor(UserRequestsOutputProcessor):
    """Knows each answer's request, and can go on with another one."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        # Weakly, as vLLM drops a state in several places.
        self._answers: WeakKeyDictionary[RequestState, tuple[EngineCoreRequest, RunningPrompt]] = (
            WeakKeyDictionary()
        )

    def add_request(self, request: EngineCoreRequest, *args: Any, **kwargs: Any) -> None:
        """Register a request, and keep what is needed to go on with another one."""
        super().add_request(request, *args, **kwargs)
        running = _entering.get()
        if running is not None:
            running.started = True
            self._answers[self.request_states[request.request_id]] = (request, running)

    def answers(self) -> Iterator[InnerRequest]:
        """The answers that are in the engine."""
        for state in self.request_states.values():
            if state in self._answers:
                request, running = self._answers[state]
                yield InnerRequest(request, state, running)

    def move(self, state: RequestState, request_id: str) -> None:
        """Let a state belong to another request of the engine from here on."""
        old = state.request_id
        del self.request_states[old]
        self.request_states[request_id] = state
        siblings = self.external_req_ids[state.external_req_id]
        siblings[siblings.index(old)] = request_id
        # The engine tells when the new one waits and runs.
        self.lora_states.request_finished(old, state.lora_name)
        state.request_id = request_id
        if state.queue is not None:
            state.queue.request_id = request_id  # by which its reader ends it

    def _update_stats_from_output(self, req_state: RequestState, *args: Any) -> None:
        stats = req_state.stats
        queued = None if stats is None or req_state.is_prefilling else stats.queued_ts
        super()._update_stats_from_output(req_state, *args)
        if queued is not None:
            # A request that goes on is queued anew, but it waited for its first token only once.
            stats.queued_ts = queued


@dataclass(frozen=True, slots=True)
class Rebuilt:
    """What a change of the default did to running prompts; `kept` counts those that stay, by reason."""

    rebuilt: int = 0
    kept: Mapping[str, int] = field(default_factory=dict)


async def rebuild(
    client: AsyncMPClient,
    outputs: RebuildingOutputProcessor,
    profiles: DefaultProfile,
    returns_experts: bool,
) -> Rebuilt:
    """Let every running prompt that goes by an earlier default follow the one of now, where it can.

    A prompt whose answer has not begun takes the new rule when it does. Records say what was done. Raises
    EngineDeadError.
    """
    inners: defaultdict[RunningPrompt, list[InnerRequest]] = defaultdict(list)
    for inner in outputs.answers():
        inners[inner.running].append(inner)
    kept: Counter[str] = Counter()
    continued: list[tuple[RequestState, EngineCoreRequest]] = []
    for running in sorted(profiles.behind(), key=lambda one: one.record.arrival):
        if running.started and running not in inners:
            continue  # its last output is on its way to the user
        try:
            continued += _following(running, inners[running], profiles, returns_experts)
        except CannotGoOnError as error:
            running.record.not_rebuilt = error.reason
            kept[error.reason] += 1
    await go_on(client, outputs, continued)
    return Rebuilt(len(continued), kept)


def _following(
    running: RunningPrompt, answers: Sequence[InnerRequest], profiles: DefaultProfile, returns_experts: bool
) -> list[tuple[RequestState, EngineCoreRequest]]:
    """What a prompt's answer goes on as under the default of now; nothing where that changes nothing."""
    for inner in answers:
        reason = inner.obstacle(returns_experts)
        if reason is not None:
            raise CannotGoOnError(reason)
    try:
        parameters = profiles.placed(running.prompt, running.asked, None, running.max_tokens_given)
    except RequestError as error:
        raise CannotGoOnError("length") from error
    before, now = (
        ((p.extra_args or {}).get(PROFILE), p.max_tokens or profiles.room(running))
        for p in (running.parameters, parameters)
    )
    profile, limit = now
    if any(len(inner.output) >= limit for inner in answers):
        raise CannotGoOnError("length")
    profiles.follow(running)
    if before == now:
        return []
    continued = [(inner.state, inner.continued(limit, profile)) for inner in answers]
    running.record.rebuilt += len(continued)
    return continued


async def go_on(
    client: AsyncMPClient,
    outputs: RebuildingOutputProcessor,
    pairs: Sequence[tuple[RequestState, EngineCoreRequest]],
) -> None:
    """End each state's request and send what it goes on as, oldest first.

    Everything is sent and moved before the first wait, so that no output and no abort comes between; no turn
    of the event loop may lie between asking for `pairs` and this call either. Raises EngineDeadError.
    """
    if not pairs:
        return
    # vLLM's own coroutines send at their first step, which an event loop may put behind another's abort.
    sent = [client._send_input(EngineCoreRequestType.ABORT, [state.request_id for state, _ in pairs])]
    for state, request in pairs:
        outputs.move(state, request.request_id)
    # Each goes to the head of the queue.
    for _, request in reversed(pairs):
        sent.append(client._send_input(EngineCoreRequestType.ADD, request))
    # A message that waits for its socket would be lost with the caller.
    await asyncio.shield(asyncio.gather(*sent))
