"""How likely a served model finds an answer: the answer is forced, and its log-probabilities are read.

Forcing asks the very prompt of a greedy request, so that its length, query rows and coordinates are the same.
The server must run with `--logits-processors` `PROCESSOR`.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import httpx

from cache.extra_args import FORCE_TOKENS

PROCESSOR = "cache.forced_tokens:ForceTokens"
"""What `--logits-processors` takes."""

Message = Mapping[str, str]


class LikelihoodError(RuntimeError):
    """A likelihood that cannot be had: what the server answered, or how the template breaks the answer."""


@dataclass(frozen=True, slots=True)
class Likelihood:
    """The log-probability of each token of a forced answer, and what the server says of its prompt.

    `cached_tokens` is 0 unless the server runs with `--enable-prompt-tokens-details`.
    """

    request_id: str
    logprobs: tuple[float, ...]
    prompt_tokens: int
    cached_tokens: int

    @property
    def total(self) -> float:
        """The log-probability of the whole answer."""
        return sum(self.logprobs)

    @staticmethod
    def read(response: Mapping[str, Any]) -> "Likelihood":
        """Of a completion or chat response that was asked with `force` and for log-probabilities."""
        usage = response["usage"]
        return Likelihood(
            response["id"],
            tuple(token_logprobs(response["choices"][0])),
            usage["prompt_tokens"],
            (usage.get("prompt_tokens_details") or {}).get("cached_tokens") or 0,
        )


@dataclass(frozen=True, slots=True)
class Gold:
    """The tokens of one answer to force, of which the first `lead` only lead in to it."""

    ids: tuple[int, ...]
    lead: int

    @property
    def counted(self) -> int:
        """Tokens whose log-probability counts."""
        return len(self.ids) - self.lead


async def likelihood(client: httpx.AsyncClient, url: str, body: Mapping[str, Any], gold: Gold) -> Likelihood:
    """How likely the chat completion that `body` asks the server at `url` for starts with an answer.

    Raises LikelihoodError where the request is refused or the server does not force tokens, and httpx's
    errors.
    """
    asked = {**body, **force(gold.ids), "logprobs": True}
    response = await client.post(f"{url}/v1/chat/completions", json=asked)
    if response.status_code != 200:
        raise LikelihoodError(f"{response.status_code}: {response.text}")
    content: dict[str, Any] = response.json()
    emitted = content["choices"][0]["token_ids"]
    if emitted != list(gold.ids):
        raise LikelihoodError(
            f"the server emitted {emitted}, not {list(gold.ids)}: it must run with "
            f"--logits-processors {PROCESSOR}"
        )
    found = Likelihood.read(content)
    return replace(found, logprobs=found.logprobs[gold.lead :])


def golds(tokenizer: Any, messages: Sequence[Message], lead_in: str, told: Sequence[str]) -> list[Gold]:
    """What to force for each of several answers, told behind the same lead-in; errors as `answer_ids`'."""
    found = [answer_ids(tokenizer, messages, text) for text in told]
    return [Gold(tuple(ids), lead_tokens(tokenizer, messages, lead_in, ids)) for ids in found]


def answer_ids(tokenizer: Any, messages: Sequence[Message], answer: str) -> list[int]:
    """The tokens of an answer where the assistant's text begins after `messages`.

    `tokenizer`: of transformers, with a chat template. The template decides whether white space stands
    before the answer. Raises LikelihoodError where answer and prompt share a token.
    """
    prompt = tokenizer.apply_chat_template(messages, add_generation_prompt=True, tokenize=False)
    told = tokenizer.apply_chat_template(
        [*messages, {"role": "assistant", "content": answer}], tokenize=False
    )
    before = told[len(prompt) :].partition(answer)[0] if told.startswith(prompt) else ""
    # What else a template writes there, such as an empty thought, is no part of an answer.
    space = before if before.isspace() else ""
    # The template has written the special tokens already.
    start = tokenizer(prompt, add_special_tokens=False)["input_ids"]
    whole = tokenizer(prompt + space + answer, add_special_tokens=False)["input_ids"]
    if whole[: len(start)] != start:
        raise LikelihoodError(f"the template's end and the answer {answer!r} share a token")
    return list(whole[len(start) :])


def lead_tokens(tokenizer: Any, messages: Sequence[Message], lead_in: str, ids: Sequence[int]) -> int:
    """How many of the tokens `ids`, of an answer behind its lead-in, are the lead-in's.

    Raises LikelihoodError where lead-in and answer share a token.
    """
    lead = answer_ids(tokenizer, messages, lead_in) if lead_in else []
    if list(ids[: len(lead)]) != lead:
        raise LikelihoodError(f"the lead-in {lead_in!r} and the answer share a token")
    return len(lead)


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
