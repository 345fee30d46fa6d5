"""What is asked of the servers: documents of a wanted length with a question, never twice the same."""

from dataclasses import dataclass, field
from typing import Any, Literal

import httpx

from tests.support.prose import document

MODEL = "bench"
_SAMPLES = 10
_SAMPLE_SENTENCES = 200
_PASSAGE_CHARACTERS = 40

# Unguarded: what is measured is what modulation costs.
_QGPM = {"relevance": "heads", "guard": 0}
_LEXICAL = {"relevance": "lexical", "guard": 0}

Ask = Literal["plain", "qgpm", "lexical", "evidence"]


async def tokens_per_sentence(client: httpx.AsyncClient, url: str) -> float:
    """How many tokens the served model makes of a sentence, on average."""
    count = 0
    for seed in range(_SAMPLES):
        text = document(_SAMPLE_SENTENCES, seed)
        response = await client.post(f"{url}/tokenize", json={"model": MODEL, "prompt": text})
        count += response.raise_for_status().json()["count"]
    return count / (_SAMPLES * _SAMPLE_SENTENCES)


@dataclass(slots=True)
class Workload:
    """Makes bodies for the completions endpoint: greedy, with a fixed number of tokens.

    A number at the very start of each prompt, of always as many digits, is new for every prompt, so that no
    cached block is ever hit while texts of one seed have the same length.
    """

    per_sentence: float
    _made: int = field(default=10_000_000)

    def body(self, tokens: int, seed: int, max_tokens: int, ask: Ask = "plain") -> dict[str, Any]:
        """A prompt of about `tokens` tokens whose text, but for the number, depends on `seed`.

        With evidence, it is a passage from the middle of the text.
        """
        self._made += 1
        question = "Who carried the map of the harbour?"
        body = self._body(f"Report {self._made}.", tokens, seed, question, max_tokens)
        match ask:
            case "plain":
                return body
            case "qgpm":
                return {**body, "qgpm": _QGPM}
            case "lexical":
                return {**body, "qgpm": _LEXICAL}
            case "evidence":
                return {**body, "qgpm": {"evidence": [_middle(body["prompt"])]}}

    def reading(self, tokens: int) -> dict[str, Any]:
        """A plain question on the document of `question`."""
        return self._body("The report.", tokens, 0, "Who reads this?", 1)

    def question(self, number: int, tokens: int, max_tokens: int) -> dict[str, Any]:
        """Question `number` on one document of about `tokens` tokens that stays the same, with QGPM."""
        question = f"What was said of the harbour on the day of report {10_000_000 + number}?"
        return {**self._body("The report.", tokens, 0, question, max_tokens), "qgpm": _QGPM}

    def _body(self, title: str, tokens: int, seed: int, question: str, max_tokens: int) -> dict[str, Any]:
        sentences = max(round(tokens / self.per_sentence) - 2, 2)
        return {
            "model": MODEL,
            "prompt": f"{title} {document(sentences, seed)}\n\nQuestion: {question}\nAnswer:",
            "max_tokens": max_tokens,
            "temperature": 0,
            "ignore_eos": True,
            # An end token that is ignored must still be seen to arrive.
            "skip_special_tokens": False,
        }


def _middle(text: str) -> str:
    start = text.index(" ", len(text) // 2) + 1
    return text[start : start + _PASSAGE_CHARACTERS].strip()
