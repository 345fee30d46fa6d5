"""Running answers go on as new inner requests: the same stream, other positions.

A block's key is made of what its request carried when it came, so a request never changes under its
engine: it is ended there, and what it has generated so far becomes part of a new request's prompt. What
the user sees (text, log-probabilities, counts, first token) is kept by vLLM's `RequestState`, which moves
to the new request's id. Outputs still on their way under the old id belong to nobody and are dropped.
"""

import asyncio
from collections.abc import Awaitable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any
from weakref import WeakKeyDictionary

import msgspec
from vllm.sampling_params import SamplingParams
from vllm.utils import random_uuid
from vllm.v1.engine import EngineCoreRequest, EngineCoreRequestType
from vllm.v1.engine.core_client import AsyncMPClient
from vllm.v1.engine.output_processor import RequestState

from cache.extra_args import FIRST, SCORE_TASK, reserved_names
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


@dataclass(frozen=True, slots=True)
class InnerRequest:
    """An answer that the engine works on: its request as it first came, and its state for the user."""

    first: EngineCoreRequest
    state: RequestState

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

    def continued(self, extra_args: Mapping[str, Any], max_tokens: int) -> EngineCoreRequest:
        """The request that goes on where this one is: its prompt and output, and the rest of its budget.

        `max_tokens` counts from the end of the user's prompt, and is more than what has been generated.
        """
        done = self.output
        parameters = self.parameters.clone()
        parameters.max_tokens = max_tokens - len(done)
        parameters.min_tokens = max(parameters.min_tokens - len(done), 0)
        # It was served already, so it does not queue behind those that were not.
        parameters.extra_args = {**extra_args, FIRST: True}
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
        self._requests: WeakKeyDictionary[RequestState, EngineCoreRequest] = WeakKeyDictionary()

    def add_request(self, request: EngineCoreRequest, *args: Any, **kwargs: Any) -> None:
        """Register a request, and keep it beside its state."""
        super().add_request(request, *args, **kwargs)
        if request.sampling_params is not None:
            self._requests.setdefault(self.request_states[request.request_id], request)

    def answers(self) -> Iterator[InnerRequest]:
        """The answers that are in the engine, in the order of their arrival there; no score passes."""
        for state in self.request_states.values():
            request = self._requests.get(state)
            if request is not None and SCORE_TASK not in (request.sampling_params.extra_args or {}):
                yield InnerRequest(request, state)

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


def go_on(
    client: AsyncMPClient,
    outputs: RebuildingOutputProcessor,
    continued: Iterable[tuple[RequestState, EngineCoreRequest]],
) -> Awaitable[Any]:
    """End each state's request and send what it goes on as, oldest first; all of it before this returns.

    No turn of the event loop may lie between asking for `continued` and this call. Awaiting the result
    waits for the sockets only. Raises EngineDeadError.
    """
    pairs = list(continued)
    # vLLM's own coroutines send at their first step, which an event loop may put after another's abort.
    sent = [client._send_input(EngineCoreRequestType.ABORT, [state.request_id for state, _ in pairs])]
    for state, request in pairs:
        outputs.move(state, request.request_id)
    # Each goes to the head of the queue.
    for _, request in reversed(pairs):
        sent.append(client._send_input(EngineCoreRequestType.ADD, request))
    return asyncio.shield(asyncio.gather(*sent))
