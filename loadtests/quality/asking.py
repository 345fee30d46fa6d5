"""One sample by one method, over HTTP: a greedy answer, then the gold ones, forced under the same prompt."""

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import Any

import httpx

from loadtests.quality.methods import RANKED, SERVED
from loadtests.quality.observations import Key, Observation
from loadtests.quality.reply import ANSWER_TOKENS, Reply
from server.likelihood import LikelihoodError, golds, likelihood
from server.samples import Sample


@dataclass(frozen=True, slots=True)
class Asker:
    """Whom to ask: the server's `url`, the `model`'s name there and its `tokenizer`."""

    client: httpx.AsyncClient
    url: str
    model: str
    tokenizer: Any

    async def observe(self, sample: Sample, key: Key) -> Observation | None:
        """The greedy answer, and the mean log-probability of the gold ones.

        None where the method needs evidence and the sample has none. Raises LikelihoodError, naming the
        sample, where the server refuses, and httpx's errors.
        """
        method = SERVED[key.method]
        if method.evidence and not sample.evidence:
            return None
        started = time.perf_counter()
        body = {"model": self.model, **method.body(sample)}
        forced = golds(self.tokenizer, body["messages"], sample.lead_in, sample.told)
        greedy = await self._post("/v1/chat/completions", {**body, **_GREEDY}, key)
        # One after another: all find the first request's blocks.
        found = [await likelihood(self.client, self.url, body, gold) for gold in forced]
        record = (await self.client.get(f"{self.url}/v1/requests/{found[0].request_id}")).json()
        seconds = time.perf_counter() - started
        rank = await self._evidence_rank(sample, body, key) if key.method in RANKED else None
        reply = Reply(
            output=greedy["choices"][0]["message"]["content"] or "",
            logprob=fmean(likelihood.total for likelihood in found),
            prompt_tokens=found[0].prompt_tokens,
            mode=record["mode"],
            cached_tokens=found[0].cached_tokens,
            reason=record.get("reason"),
            evidence_rank=rank,
            confidence=None if rank is None else _confidence(record),
        )
        return reply.observation(sample, key, forced, seconds)

    async def _evidence_rank(self, sample: Sample, body: Mapping[str, Any], key: Key) -> int | None:
        found = await self._post("/v1/qgpm/relevance", body, key)
        return best_rank(found["sentences"], sample.evidence)

    async def _post(self, path: str, body: Mapping[str, Any], key: Key) -> dict[str, Any]:
        response = await self.client.post(self.url + path, json=body)
        if response.status_code != 200:
            raise LikelihoodError(f"{key}: {response.status_code}: {response.text}")
        content: dict[str, Any] = response.json()
        return content


def _confidence(record: Mapping[str, Any]) -> float | None:
    """The guard's; it judges nothing where the relevance tells no sentence from another."""
    verdict = record["guard"]
    return None if verdict is None else float(verdict["confidence"])


_GREEDY = {"temperature": 0, "max_tokens": ANSWER_TOKENS}


def best_rank(sentences: Sequence[Mapping[str, Any]], evidence: Sequence[str]) -> int | None:
    """The rank, from 0, of the best sentence that holds a part of the evidence; None where none does.

    `sentences`: of `POST /v1/qgpm/relevance`, which tile the context.
    """
    context = "".join(sentence["text"] for sentence in sentences)
    ranks: list[int] = []
    for passage in evidence:
        begin = context.find(passage)
        if begin < 0:
            continue
        at = 0
        for sentence in sentences:
            # White space at its beginning is not what a sentence says.
            first = at + len(sentence["text"]) - len(sentence["text"].lstrip())
            at += len(sentence["text"])
            if first < begin + len(passage) and begin < at:
                ranks.append(sentence["rank"])
    return min(ranks, default=None)
