"""One sample by a method that no server here can give, as `asking` asks a server."""

import asyncio
import time
from dataclasses import dataclass
from typing import cast

from loadtests.quality.methods import chat
from loadtests.quality.observations import REFERENCE, Key, Observation
from loadtests.quality.reference import Reference
from loadtests.quality.reply import ANSWER_TOKENS, Reply
from loadtests.quality.warping import Baseline
from positional.warps import WarpError
from server.likelihood import golds
from server.samples import Sample


@dataclass(frozen=True, slots=True)
class WarpedAsker:
    """Asks a transformers model."""

    reference: Reference

    async def observe(self, sample: Sample, key: Key) -> Observation | None:
        """None where the prompt's length does not suit the method."""
        started = time.perf_counter()
        messages = chat(sample)
        forced = golds(self.reference.tokenizer, messages, sample.lead_in, sample.told)
        method = cast(Baseline, key.method)
        try:
            answer = await asyncio.to_thread(self.reference.observe, messages, forced, method, ANSWER_TOKENS)
        except WarpError:
            return None
        reply = Reply(answer.text, answer.logprob, answer.prompt_tokens, REFERENCE)
        return reply.observation(sample, key, forced, time.perf_counter() - started)
