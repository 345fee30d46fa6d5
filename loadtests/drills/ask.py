"""The requests of the drills: a pool of them, whose right answers are known."""

import random
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import cycle
from typing import Any

import httpx

from loadtests.drills.subject import MODEL
from tests.support.prose import document

_COMPLETIONS, _CHAT = "/v1/completions", "/v1/chat/completions"
_QUESTIONS = (
    "Question: Who hid the lighthouse key?",
    "Question: What did Dr. Vance sell?",
    "Question: Where was the wooden violin?",
)
# Few sentences stand out, so that the order of the many others, nearly tied, moves nothing.
_QGPM = {
    "relevance": "heads",
    "guard": 0,
    "k_broad": 3,
    "t_broad": 0.3,
    "k_sharp": 1,
    "t_sharp": 0.1,
}
_SAMPLE_SENTENCES = 100
_PASSAGE = 40

KINDS: Mapping[str, tuple[str, Mapping[str, Any]]] = {
    "plain": (_COMPLETIONS, {}),
    "plain chat": (_CHAT, {}),
    "qgpm": (_COMPLETIONS, {"qgpm": _QGPM}),
    "qgpm chat": (_CHAT, {"qgpm": _QGPM}),
    "evidence": (_COMPLETIONS, {"qgpm": "evidence"}),
    "own base": (_COMPLETIONS, {"rope": {"base": 20_000}}),
    "own yarn": (_CHAT, {"rope": {"scaling": {"rope_type": "yarn", "factor": 2}}}),
    "qgpm, own base": (_COMPLETIONS, {"qgpm": _QGPM, "rope": {"base": 20_000}}),
}
"""Route and fields by kind."""


@dataclass(frozen=True, slots=True)
class Ask:
    """A greedy request with its log-probabilities; `name` tells it from all others of its pool."""

    name: str
    path: str
    fields: Mapping[str, Any]

    @property
    def chat(self) -> bool:
        """Whether it is a chat."""
        return self.path == _CHAT

    def body(self, request_id: str, *, stream: bool = False, salt: str | None = None) -> dict[str, Any]:
        """What is sent; `request_id` becomes a part of the response's id."""
        # By id, since two tokens may read alike.
        whole = {"logprobs": 2, "return_tokens_as_token_ids": True}
        best = {"logprobs": True, "top_logprobs": 2} if self.chat else whole
        streamed = {"stream": True, "stream_options": {"include_usage": True}} if stream else {}
        return {
            "model": MODEL,
            "temperature": 0,
            "ignore_eos": True,
            "return_token_ids": True,
            "request_id": request_id,
            **best,
            **streamed,
            **({} if salt is None else {"cache_salt": salt}),
            **self.fields,
        }

    def response_id(self, request_id: str) -> str:
        """The id under which the server keeps what it did."""
        return f"{'chatcmpl' if self.chat else 'cmpl'}-{request_id}"


def tokens_per_sentence(client: httpx.Client) -> float:
    """How many tokens the served model makes of a sentence."""
    text = document(_SAMPLE_SENTENCES, seed=0)
    response = client.post("/tokenize", json={"model": MODEL, "prompt": text})
    return float(response.raise_for_status().json()["count"]) / _SAMPLE_SENTENCES


def pool(
    per_sentence: float,
    count: int,
    *,
    tokens: tuple[int, int] = (150, 900),
    output: tuple[int, int] = (8, 40),
    seed: int = 0,
) -> tuple[Ask, ...]:
    """Requests of all kinds in turn, with prompts and answers of lengths in these ranges.

    A third of the documents belongs to several requests, which so share cached blocks.
    """
    return tuple(_asks(per_sentence, count, tokens, output, random.Random(seed)))


def _asks(
    per_sentence: float,
    count: int,
    tokens: tuple[int, int],
    output: tuple[int, int],
    generator: random.Random,
) -> Iterator[Ask]:
    for number, (kind, (path, fields)) in zip(range(count), cycle(KINDS.items()), strict=False):
        low, high = tokens
        sentences = max(round(low * (high / low) ** generator.random() / per_sentence), 3)
        text = document(sentences, seed=number // 3 * 3 if number % 3 == 1 else number)
        prompt = f"{text}\n\n{generator.choice(_QUESTIONS)}"
        told: dict[str, Any] = (
            {"messages": [{"role": "user", "content": prompt}]} if path == _CHAT else {"prompt": prompt}
        )
        own = {**fields, "qgpm": {"evidence": [_middle(text)]}} if kind == "evidence" else dict(fields)
        yield Ask(f"{number} {kind}", path, {**told, "max_tokens": generator.randint(*output), **own})


def _middle(text: str) -> str:
    start = text.index(" ", len(text) // 2) + 1
    return text[start : start + _PASSAGE].strip()
