"""What is asked of the servers: documents of a wanted length with a question, never twice the same."""

from dataclasses import dataclass, field
from typing import Any

import httpx

from tests.support.prose import document

MODEL = "bench"
_SAMPLE_SENTENCES = 200


def tokens_per_sentence(client: httpx.Client, url: str) -> float:
    """How many tokens the served model makes of a sentence, on average."""
    text = document(_SAMPLE_SENTENCES, seed=0)
    response = client.post(f"{url}/tokenize", json={"model": MODEL, "prompt": text})
    response.raise_for_status()
    return float(response.json()["count"]) / _SAMPLE_SENTENCES


@dataclass(slots=True)
class Workload:
    """Makes bodies for the completions endpoint: greedy, with a fixed number of tokens.

    A number at the very start of each prompt, of always as many digits, is new for every prompt, so that no
    cached block is ever hit while texts of one seed have the same length.
    """

    per_sentence: float
    _made: int = field(default=10_000_000)

    def body(self, tokens: int, seed: int, max_tokens: int, qgpm: bool = False) -> dict[str, Any]:
        """A prompt of about `tokens` tokens whose text, but for the number, depends on `seed`."""
        self._made += 1
        question = "Who carried the map of the harbour?"
        return self._body(f"Report {self._made}.", tokens, seed, question, max_tokens, qgpm)

    def question(self, number: int, tokens: int, max_tokens: int) -> dict[str, Any]:
        """Question `number` on one document of about `tokens` tokens that stays the same, with QGPM."""
        question = f"What was said of the harbour on the day of report {10_000_000 + number}?"
        return self._body("The report.", tokens, 0, question, max_tokens, qgpm=True)

    def _body(
        self, title: str, tokens: int, seed: int, question: str, max_tokens: int, qgpm: bool
    ) -> dict[str, Any]:
        sentences = max(round(tokens / self.per_sentence) - 2, 2)
        body: dict[str, Any] = {
            "model": MODEL,
            "prompt": f"{title} {document(sentences, seed)}\n\nQuestion: {question}\nAnswer:",
            "max_tokens": max_tokens,
            "temperature": 0,
            "ignore_eos": True,
            # An end token that is ignored must still be seen to arrive.
            "skip_special_tokens": False,
        }
        return {**body, "qgpm": True} if qgpm else body
