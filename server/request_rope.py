"""The RoPE rule of one request, written into what it carries to the engine."""

from collections.abc import Mapping
from typing import Any

from vllm.sampling_params import SamplingParams

from cache.extra_args import PROFILE
from server.rope_choice import ServedRope, Wish, choose


def prompt_tokens(prompt: Mapping[str, Any]) -> int:
    """Tokens of a rendered prompt, of ids or of embeddings."""
    tokens = prompt.get("prompt_token_ids")
    return len(prompt["prompt_embeds"] if tokens is None else tokens)


def with_rope(
    parameters: SamplingParams,
    served: ServedRope,
    wish: Wish,
    prompt: Mapping[str, Any],
    max_model_len: int,
    max_tokens_given: bool | None,
) -> SamplingParams:
    """The parameters of a request under its rule: its profile where vLLM's modules hold another, its budget.

    Without a word on `max_tokens_given` what fills the server's limit counts as not given. Raises
    RequestError for a request that its rule does not cover.
    """
    if wish == served.loaded and served.loaded.window >= max_model_len:
        return parameters
    length = prompt_tokens(prompt)
    room = max_model_len - length
    budget = room if parameters.max_tokens is None else min(parameters.max_tokens, room)
    given = budget < room if max_tokens_given is None else max_tokens_given
    choice = choose(wish, length, budget, given, parameters.min_tokens)
    profile = served.carried(choice)
    if profile is None and choice.max_tokens == budget:
        return parameters
    placed = parameters.clone()
    placed.max_tokens = choice.max_tokens
    if profile is not None:
        placed.extra_args = {**(parameters.extra_args or {}), PROFILE: profile.to_bytes()}
    return placed
