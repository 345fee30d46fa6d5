"""Prompts read independently of the server, and servers to compare with the reference."""

import random
import re
from bisect import bisect_left
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from positional.qgpm import QGPMConfig
from server.child import Server
from server.likelihood import force, token_logprobs
from tests.support.checkpoints import Architecture
from tests.support.prose import document
from tests.support.reference import Modulated, Reference, Span
from tests.support.tiny import TINY

Place = Literal["start", "middle", "end"]

TOLERANCE = 1e-3
FORCED = 16
HEADS = ((1, 0), (1, 3), (3, 2))
"""Heads of the tiny checkpoints' profile; layers 1 and 3 are Gemma's full ones, and heads 0 and 3 of layer 1
have different keys."""

QUESTION = "Question: Who hid the lighthouse key?"
CONFIG = QGPMConfig(
    k_broad=3,
    t_broad=0.5,
    k_sharp=1,
    t_sharp=0.2,
    score_low=0.3,
    stride_floor=0.1,
    anchor_ratio=0.2,
    gate_width=0.5,
)
SETTINGS = {name: getattr(CONFIG, name) for name in CONFIG.__dataclass_fields__}

_STOP = re.compile(r"(?<!\bMr)(?<!\bDr)[.!?](?=\s)")


@dataclass(frozen=True, slots=True)
class Setup:
    """A server's configuration; `model` is an architecture of the tiny checkpoints, or "default"."""

    model: Architecture | Literal["default"]
    chunk: int
    block: int

    def __str__(self) -> str:
        return f"{self.model}-{self.chunk}"

    @property
    def flags(self) -> list[str]:
        """Flags that stock vLLM and ours both take."""
        memory = ["--kv-cache-memory-bytes", str(512 << 20)] if self.model == "default" else []
        return [
            *TINY,
            *memory,
            *("--served-model-name", "tested", "--max-num-seqs", "16"),
            *("--max-num-batched-tokens", str(self.chunk), "--block-size", str(self.block)),
        ]


@dataclass(frozen=True)
class Prompt:
    """A prompt as the tests read it: the character that each token starts at, context and question."""

    tokens: list[int]
    text: str
    starts: list[int]
    context: Span
    question: Span
    content: str = ""

    @staticmethod
    def completion(tokenizer: Any, length: int, seed: int) -> "Prompt":
        """A prompt of `length` tokens: prose in lines, then the question."""
        asked = _ids(tokenizer, f"\n\n{QUESTION}")
        told = _ids(tokenizer, prose(length // 8 + 8, seed))
        tokens = [*told[: length - len(asked)], *asked]
        text, starts = _aligned(tokenizer, tokens)
        start = text.index(QUESTION)
        return Prompt(tokens, text, starts, (0, start), (start, len(text)))

    @staticmethod
    def chat(tokenizer: Any, sentences: int, seed: int) -> "Prompt":
        """The rendered chat whose only message is `content`."""
        content = f"{prose(sentences, seed)}\n\n{QUESTION}"
        messages = [{"role": "user", "content": content}]
        rendered = tokenizer.apply_chat_template(messages, add_generation_prompt=True, tokenize=False)
        tokens = _ids(tokenizer, rendered)
        text, starts = _aligned(tokenizer, tokens)
        assert text == rendered
        start, asked = text.index(content), text.index(QUESTION)
        return Prompt(tokens, text, starts, (start, asked), (asked, asked + len(QUESTION)), content)

    @property
    def body(self) -> dict[str, Any]:
        """What a request says to ask with this prompt."""
        if self.content:
            return {"messages": [{"role": "user", "content": self.content}], "logprobs": True}
        return {"prompt": self.tokens, "logprobs": 0}

    @property
    def sentences(self) -> list[Span]:
        """Characters of each sentence: they tile the context, white space going with what follows it."""
        start, end = self.context
        stops = [start + stop.end() for stop in _STOP.finditer(self.text[start:end])]
        ends = [stop for stop in stops if self.text[stop:end].strip()]
        return list(zip([start, *ends], [*ends, end], strict=True))

    @property
    def spans(self) -> list[Span]:
        """Tokens of each sentence: those whose first character it holds."""
        return [(self._token(start), self._token(end)) for start, end in self.sentences]

    @property
    def query_rows(self) -> list[int]:
        """The question's tokens and the last four."""
        asked = range(*map(self._token, self.question))
        return sorted({*asked, *range(len(self.tokens) - 4, len(self.tokens))})

    @property
    def silent(self) -> list[int]:
        """Tokens with a newline."""
        ends = [*self.starts[1:], len(self.text)]
        return [
            index
            for index, (start, end) in enumerate(zip(self.starts, ends, strict=True))
            if "\n" in self.text[start:end]
        ]

    def evidence(self, place: Place) -> list[dict[str, Any]]:
        """Two passages: the most relevant one at `place`, the other a third into the context."""
        count = len(self.sentences)
        index = {"start": 0, "middle": count // 2, "end": count - 1}[place]
        return [
            {"text": self.text[slice(*self.sentences[index])].strip(), "score": 3.0},
            {"text": self.text[slice(*self.sentences[count // 3])].strip(), "score": 1},
        ]

    def modulated(self, relevance: Sequence[float]) -> Modulated:
        """What the reference needs to move this prompt."""
        return Modulated(relevance, self.spans, len(self.tokens), CONFIG)

    def moved_by(self, evidence: Sequence[Mapping[str, Any]]) -> Modulated:
        """This prompt moved by passages: each sentence has the best score of a passage it holds.

        One that holds none has less than any passage, the more the later it stands.
        """
        texts = [self.text[start:end] for start, end in self.sentences]
        return self.modulated(
            [
                max([index - len(texts), *(p["score"] for p in evidence if p["text"] in text)])
                for index, text in enumerate(texts)
            ]
        )

    def _token(self, character: int) -> int:
        return bisect_left(self.starts, character)


@dataclass(frozen=True)
class Model:
    """A checkpoint with its tokenizer, its relevance heads and the reference, whose values are kept."""

    path: Path
    tokenizer: Any
    heads: tuple[Span, ...]
    reference: Reference
    _known: dict[str, list[float]] = field(default_factory=dict)

    def forced(self, seed: int) -> list[int]:
        """Tokens to force."""
        generator = random.Random(seed)
        return [generator.randrange(3, 500) for _ in range(FORCED)]

    def logprobs(
        self, prompt: Prompt, forced: Sequence[int], modulated: Modulated | None = None
    ) -> list[float]:
        """The reference's log-probabilities of the forced tokens."""
        key = repr((prompt.tokens, forced, modulated))
        if key not in self._known:
            self._known[key] = self.reference.forced_logprobs(prompt.tokens, forced, modulated)
        return self._known[key]


@dataclass(frozen=True, slots=True)
class Target:
    """A server of ours, or stock vLLM's, with the model that it serves."""

    server: Server
    model: Model
    setup: Setup

    def answer(
        self, prompt: Prompt, forced: Sequence[int], qgpm: Any = None, salt: str | None = None
    ) -> dict[str, Any]:
        """The response to a request that emits the forced tokens; another `salt` finds nothing cached."""
        path = "/v1/chat/completions" if prompt.content else "/v1/completions"
        extra = {} if qgpm is None else {"qgpm": qgpm}
        if salt is not None:
            extra["cache_salt"] = salt
        return self._post(path, {**prompt.body, **force(forced), **extra})

    def logprobs(
        self, prompt: Prompt, forced: Sequence[int], qgpm: Any = None, salt: str | None = None
    ) -> list[float]:
        """The served log-probabilities of the forced tokens."""
        return token_logprobs(self.answer(prompt, forced, qgpm, salt)["choices"][0])

    def relevance(self, prompt: Prompt) -> dict[str, Any]:
        """The score pass alone."""
        return self._post("/v1/qgpm/relevance", {**prompt.body, "qgpm": SETTINGS})

    def record(self, response: Mapping[str, Any]) -> dict[str, Any]:
        """What the server says that it did for a response."""
        content: dict[str, Any] = self.server.get(f"/v1/requests/{response['id']}").json()
        return content

    def _post(self, path: str, body: Mapping[str, Any]) -> dict[str, Any]:
        response = self.server.post(path, {"model": "tested", **body}, timeout=600)
        assert response.status_code == 200, response.text
        content: dict[str, Any] = response.json()
        return content


def prose(sentences: int, seed: int) -> str:
    """Sentences, of which every third begins a line."""
    parts = [document(3, seed=1000 * seed + index) for index in range(-(-sentences // 3))]
    return "\n".join(parts)


def largest_difference(left: Sequence[float], right: Sequence[float]) -> float:
    """Of two lists of the same length."""
    return max(abs(a - b) for a, b in zip(left, right, strict=True))


def _ids(tokenizer: Any, text: str) -> list[int]:
    return list(tokenizer(text, add_special_tokens=False).input_ids)


def _aligned(tokenizer: Any, tokens: Sequence[int]) -> tuple[str, list[int]]:
    """Text and starts from decoding each token alone, as the prose is ASCII."""
    text, starts = "", []
    for token in tokens:
        starts.append(len(text))
        text += tokenizer.decode([token], clean_up_tokenization_spaces=False)
    return text, starts
