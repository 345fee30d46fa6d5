"""Forced tokens from the client's side: what a request body says, and what is read from the answer."""

from collections.abc import Mapping, Sequence
from typing import Any

KEY = "force_tokens"
"""Name in `vllm_xargs` (in the engine: `extra_args`): a list of token ids, or one joined by commas."""

STEP_SECONDS = "ROPEWAY_TESTS_STEP_SECONDS"
"""Environment variable: how long each step of an engine with `PROCESSOR` sleeps, so that readers keep up."""

PROCESSOR = "tests.support.forcing:ForceTokens"
"""What `--logits-processors` takes."""


def force(tokens: Sequence[int]) -> dict[str, Any]:
    """Body fields under which a completion or chat request emits exactly `tokens`."""
    return {
        "vllm_xargs": {KEY: list(tokens)},
        "max_tokens": len(tokens),
        "ignore_eos": True,
        "temperature": 0,
        "return_token_ids": True,
    }


def token_logprobs(choice: Mapping[str, Any]) -> list[float]:
    """The log-probability of each output token of one choice of a completion or chat response.

    The request must ask for them: `logprobs` 0 or more for completions, true for chat.
    """
    logprobs = choice["logprobs"]
    if "token_logprobs" in logprobs:
        return list(logprobs["token_logprobs"])
    return [entry["logprob"] for entry in logprobs["content"]]
