"""A vLLM logits processor that makes a request emit given tokens; what it reports stays raw.

Not loaded unless `--logits-processors` names it: it is for measuring how likely a model finds an answer.
"""

from collections.abc import Callable, Sequence
from typing import Any

import torch
from vllm import SamplingParams
from vllm.v1.sample.logits_processor import AdapterLogitsProcessor

from cache.extra_args import FORCE_TOKENS


class ForceTokens(AdapterLogitsProcessor):
    """Lets the k-th output token be the k-th of the request's list; free again after the last.

    Under `logprobs_mode=raw_logprobs` vLLM takes log-probabilities before it calls any processor. The number
    of tokens so far is the length of the request's own output list, so chunks, moves in the batch, n > 1
    and resumption after preemption need no state here.
    """

    @classmethod
    def validate_params(cls, sampling_params: SamplingParams) -> None:
        forced_tokens(sampling_params)

    def is_argmax_invariant(self) -> bool:
        return False

    def new_req_logits_processor(
        self, params: SamplingParams
    ) -> Callable[[Sequence[int], torch.Tensor], torch.Tensor] | None:
        forced = forced_tokens(params)
        if not forced:
            return None

        def force(output_ids: Sequence[int], logits: torch.Tensor) -> torch.Tensor:
            if len(output_ids) < len(forced):
                logits.fill_(float("-inf"))
                logits[forced[len(output_ids)]] = 0.0
            return logits

        return force


def forced_tokens(params: SamplingParams) -> list[int]:
    """The token ids that a request forces; raises ValueError where they are not a list of such."""
    value: Any = (params.extra_args or {}).get(FORCE_TOKENS, [])
    items = value.split(",") if isinstance(value, str) else value
    if not isinstance(items, list):
        raise ValueError(f"{FORCE_TOKENS} must be a list of token ids, got {value!r}")
    return [int(item) for item in items]
