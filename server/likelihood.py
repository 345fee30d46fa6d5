"""How likely a served model finds an answer: the answer is forced, and its log-probabilities are read.

Forcing asks the very prompt of a greedy request, so that its length, query rows and coordinates are the same.
The server must run with `--logits-processors` `PROCESSOR`.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from cache.extra_args import FORCE_TOKENS

PROCESSOR = "cache.forced_tokens:ForceTokens"
"""What `--logits-processors` takes."""


def force(tokens: Sequence[int]) -> dict[str, Any]:
    """Body fields under which a completion or chat request emits exactly `tokens`."""
    return {
        "vllm_xargs": {FORCE_TOKENS: list(tokens)},
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
