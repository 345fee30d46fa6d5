"""A greedy answer, and whether another one is the same."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from server.likelihood import token_logprobs

Verdict = Literal["equal", "tied", "wrong"]
Row = Mapping[str, Any]
"""A sentence of a record's `top`."""


@dataclass(frozen=True, slots=True)
class Answer:
    """The tokens of an answer, their log-probabilities, and by how much each was ahead of the second best.

    `cached`: prompt tokens that were found in the cache, None where the server did not say.
    """

    tokens: tuple[int, ...]
    logprobs: tuple[float, ...]
    gaps: tuple[float, ...]
    finish: str | None
    cached: int | None

    @staticmethod
    def read(response: Mapping[str, Any]) -> "Answer":
        """Of a response with one choice."""
        return Answer.join([response])

    @staticmethod
    def join(chunks: Iterable[Mapping[str, Any]]) -> "Answer":
        """Of all chunks of a stream, or of the one response."""
        tokens: list[int] = []
        logprobs: list[float] = []
        gaps: list[float] = []
        finish: str | None = None
        usage: Mapping[str, Any] = {}
        for chunk in chunks:
            usage = chunk.get("usage") or usage
            for choice in chunk["choices"]:
                tokens += choice.get("token_ids") or []
                finish = choice["finish_reason"] or finish
                if choice.get("logprobs"):
                    logprobs += token_logprobs(choice)
                    gaps += map(_gap, _best(choice["logprobs"]))
        details = usage.get("prompt_tokens_details") or {}
        return Answer(tuple(tokens), tuple(logprobs), tuple(gaps), finish, details.get("cached_tokens"))

    def compared(self, right: "Answer", near: float) -> tuple[Verdict, str]:
        """How this stands to the right answer, and what differs; log-probabilities may differ by `near`.

        Where the two best tokens were nearly tied, either may come, and nothing behind it is compared.
        """
        if len(self.tokens) != len(right.tokens) or len(self.logprobs) != len(right.logprobs):
            return "wrong", f"{len(self.tokens)} tokens, not {len(right.tokens)}; ended by {self.finish}"
        for place, (token, wanted) in enumerate(zip(self.tokens, right.tokens, strict=True)):
            if token != wanted:
                tied = right.gaps[place] < 2 * near
                return ("tied" if tied else "wrong"), f"token {place} is {token}, not {wanted}"
            apart = abs(self.logprobs[place] - right.logprobs[place])
            if not apart <= near:
                return "wrong", f"the log-probability of token {place} is {apart:.2g} off"
        return "equal", ""


def nearly_tied(found: Sequence[Row], right: Sequence[Row], near: float) -> bool:
    """Whether the most relevant sentences of two records changed places that hardly differ."""
    return (
        len(found) == len(right)
        and [row["start"] for row in found] != [row["start"] for row in right]
        and all(abs(one["z"] - other["z"]) <= near for one, other in zip(found, right, strict=True))
    )


def _best(logprobs: Mapping[str, Any]) -> Iterable[Sequence[float]]:
    """The log-probabilities that were given beside each token's."""
    if "content" in logprobs:
        return [[best["logprob"] for best in entry["top_logprobs"]] for entry in logprobs["content"]]
    return [list(best.values()) for best in logprobs["top_logprobs"]]


def _gap(best: Sequence[float]) -> float:
    first, second = sorted(best, reverse=True)[:2]
    return first - second
