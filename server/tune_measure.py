"""What `ropeway tune` asks its server: how likely the answers of samples are, plainly and with QGPM."""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from statistics import fmean
from typing import Any

import httpx

from positional.guard import DEFAULT_DIAL
from positional.qgpm import QGPMConfig
from server.evidence import evidence_overrides
from server.likelihood import Gold, LikelihoodError, golds, likelihood
from server.samples import KINDS, Sample, Split, sample
from server.tune_search import BlockGain

SPLIT: Split = "tuning"


@dataclass(frozen=True, slots=True)
class Block:
    """One sample of every kind, its answers to force, and how likely they are plainly."""

    samples: tuple[Sample, ...]
    golds: tuple[list[Gold], ...]
    plain: tuple[float, ...]


@dataclass(frozen=True, slots=True)
class Asked:
    """Whom to ask: the server's `url`, the `model`'s name there and its `tokenizer`."""

    client: httpx.AsyncClient
    url: str
    model: str
    tokenizer: Any

    def count_tokens(self, text: str) -> int:
        """The tokens of a text that stands alone."""
        return len(self.tokenizer(text, add_special_tokens=False)["input_ids"])

    async def logprob(self, asked: Sample, golds: Sequence[Gold], qgpm: Mapping[str, Any] | bool) -> float:
        """The mean log-probability of the answers (nats), each behind its lead-in, under the field `qgpm`."""
        body = {"model": self.model, "messages": messages(asked), "qgpm": qgpm}
        # One after another: all but the first find the prompt's blocks.
        return fmean([(await likelihood(self.client, self.url, body, gold)).total for gold in golds])

    async def relevance(self, asked: Sample, qgpm: Mapping[str, Any]) -> dict[str, Any]:
        """What the server says of a sample's sentences under the field `qgpm`; raises LikelihoodError."""
        body = {"model": self.model, "messages": messages(asked), "qgpm": qgpm}
        response = await self.client.post(f"{self.url}/v1/qgpm/relevance", json=body)
        if response.status_code != 200:
            raise LikelihoodError(f"{response.status_code}: {response.text}")
        content: dict[str, Any] = response.json()
        return content


@dataclass(slots=True)
class Measure:
    """The gains of settings on blocks of samples; a block is asked plainly once.

    The lengths take turns within a block and from block to block. All requests of a step are sent together.
    """

    asked: Asked
    lengths: tuple[int, ...]
    seed: int
    blocks: dict[int, Block] = field(default_factory=dict)

    async def gain(self, config: QGPMConfig, number: int) -> BlockGain:
        """What settings, were they the defaults, add on the block of a number, against plain.

        The heads' relevance is read from the server's memo but for the first time. Raises LikelihoodError.
        """
        block = self.blocks[number] = self.blocks.get(number) or await self.block(number)
        # The long ones first, so that the short ones fill the end.
        order = sorted(range(len(KINDS)), key=lambda index: -block.samples[index].length)
        fields: tuple[Callable[[Sample], dict[str, Any]], ...] = (
            lambda one: with_evidence(config, one),
            lambda one: with_heads(config, one),
        )
        logprobs = await asyncio.gather(
            *(
                self.asked.logprob(block.samples[index], block.golds[index], make(block.samples[index]))
                for index in order
                for make in fields
            )
        )
        plain = [block.plain[index] for index in order]
        evidence, heads = (
            fmean(asked - before for asked, before in zip(logprobs[start::2], plain, strict=True))
            for start in range(2)
        )
        return BlockGain(evidence, heads)

    def samples(self, number: int) -> tuple[Sample, ...]:
        """Those of a block."""
        return tuple(
            sample(
                SPLIT,
                kind,
                self.lengths[(number + index) % len(self.lengths)],
                number * len(KINDS) + index,
                self.seed,
                self.asked.count_tokens,
            )
            for index, kind in enumerate(KINDS)
        )

    async def block(self, number: int) -> Block:
        """A block asked plainly; raises LikelihoodError."""
        samples = self.samples(number)
        found = tuple(golds(self.asked.tokenizer, messages(one), one.lead_in, one.told) for one in samples)
        plain = await asyncio.gather(
            *(self.asked.logprob(one, forced, False) for one, forced in zip(samples, found, strict=True))
        )
        return Block(samples, found, tuple(plain))


def messages(asked: Sample) -> list[dict[str, str]]:
    """A sample's messages as a body holds them."""
    return [{"role": role, "content": content} for role, content in asked.messages]


def with_heads(config: QGPMConfig, asked: Sample) -> dict[str, Any]:
    """The field `qgpm` under which the heads decide, and the guard's default, were `config` the defaults."""
    # A request that sets K has it grow only where it says so.
    by = {"relevance": "heads", "guard": DEFAULT_DIAL, "adaptive_k": True}
    return {**_named(asked), **asdict(config), **by}


def with_evidence(config: QGPMConfig, asked: Sample) -> dict[str, Any]:
    """The field `qgpm` with gold evidence, K as it follows where `config` are the defaults."""
    resolved = config.resolve(evidence_overrides({}, config, len(asked.evidence)))
    return {**_named(asked), **asdict(resolved), "evidence": list(asked.evidence)}


def _named(asked: Sample) -> dict[str, str]:
    return {"question": asked.question, "context": asked.context}
