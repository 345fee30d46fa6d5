"""What is read from a server's answers; the server here is one that answers from a list."""

import json
from pathlib import Path
from typing import Any

import httpx
import pytest
from transformers import AutoTokenizer

from loadtests.quality.asking import Asker, best_rank
from loadtests.quality.observations import Key
from server.likelihood import LikelihoodError, answer_ids
from tests.loadtests.quality_samples import CONTEXT, GOLD, small_sample
from tests.support.checkpoints import make

SENTENCES = (
    {"text": "In those days the river rose.", "rank": 3},
    {"text": " Nobody crossed it for a week.", "rank": 1},
    {"text": f" {GOLD}", "rank": 2},
    {"text": " The miller counted his sacks twice.", "rank": 0},
    {"text": " Then the rain ended.", "rank": 4},
)


@pytest.fixture(scope="module")
def tokenizer(tmp_path_factory: pytest.TempPathFactory) -> Any:
    folder: Path = tmp_path_factory.mktemp("tiny")
    make("llama", folder)
    return AutoTokenizer.from_pretrained(folder)


class Answers:
    """A server that says the same to everyone, and keeps what it was asked."""

    def __init__(self, gold: list[int], status: int = 200) -> None:
        self.gold, self.status = gold, status
        self.asked: list[tuple[str, dict[str, Any]]] = []

    def __call__(self, request: httpx.Request) -> httpx.Response:
        path = request.url.path
        self.asked.append((path, json.loads(request.content or "{}")))
        if path.startswith("/v1/requests/"):
            return httpx.Response(
                200, json={"mode": "plain", "reason": "guard", "guard": {"confidence": 0.25}}
            )
        if path == "/v1/qgpm/relevance":
            return httpx.Response(200, json={"sentences": SENTENCES})
        forced = "vllm_xargs" in self.asked[-1][1]
        choice: dict[str, Any] = {"message": {"content": "It is 4711, as " + "far " * 40}}
        if forced:
            choice |= {"token_ids": self.gold, "logprobs": {"content": [{"logprob": -0.5}] * len(self.gold)}}
        usage = {"prompt_tokens": 90, "prompt_tokens_details": {"cached_tokens": 64 if forced else 0}}
        return httpx.Response(self.status, json={"id": "chat-1", "usage": usage, "choices": [choice]})

    def asker(self, tokenizer: Any) -> Asker:
        client = httpx.AsyncClient(transport=httpx.MockTransport(self))
        return Asker(client, "http://server", "measured", tokenizer)


def answers(tokenizer: Any, status: int = 200) -> Answers:
    chat = [{"role": "user", "content": small_sample().messages[0][1]}]
    return Answers(answer_ids(tokenizer, chat, small_sample().told[0]), status)


async def test_an_observation_holds_both_answers_and_what_the_server_did(tokenizer: Any) -> None:
    server = answers(tokenizer)
    found = await server.asker(tokenizer).observe(small_sample(), Key("single", 500, "qgpm", 3))
    assert found is not None
    assert found.key == Key("single", 500, "qgpm", 3)
    # Of what is forced only the answer counts, not its lead-in.
    assert found.tokens == len(tokenizer(" 4711", add_special_tokens=False)["input_ids"]) < len(server.gold)
    assert found.logprob == -0.5 * found.tokens
    assert found.correct == 1.0
    assert len(found.output) == 80
    assert (found.prompt_tokens, found.cached_tokens) == (90, 64)
    assert (found.mode, found.reason, found.depth) == ("plain", "guard", 0.5)
    assert (found.evidence_rank, found.confidence) == (2, 0.25)


@pytest.mark.parametrize("method", ["plain", "qgpm", "gold", "t_0"])
async def test_the_greedy_and_the_forced_answer_are_of_one_prompt(tokenizer: Any, method: str) -> None:
    server = answers(tokenizer)
    await server.asker(tokenizer).observe(small_sample(), Key("single", 500, method, 0))
    greedy, forced = (body for path, body in server.asked if path == "/v1/chat/completions")
    shared = ("model", "messages", "qgpm", "temperature")
    assert {name: greedy[name] for name in shared} == {name: forced[name] for name in shared}
    assert greedy["temperature"] == 0


async def test_each_of_several_answers_is_forced_alone(tokenizer: Any) -> None:
    server = answers(tokenizer)
    sample = small_sample(answers=("4711", "4711"))
    found = await server.asker(tokenizer).observe(sample, Key("multi_value", 500, "plain", 0))
    alone = await server.asker(tokenizer).observe(small_sample(), Key("single", 500, "plain", 0))
    assert found is not None
    assert alone is not None
    assert (found.tokens, found.logprob) == (2 * alone.tokens, alone.logprob)
    assert sum("vllm_xargs" in body for _, body in server.asked) == 3


async def test_the_evidence_is_ranked_only_where_the_server_ranks(tokenizer: Any) -> None:
    server = answers(tokenizer)
    found = await server.asker(tokenizer).observe(small_sample(), Key("single", 500, "gold", 0))
    assert found is not None
    assert (found.evidence_rank, found.confidence) == (None, None)
    assert all(path != "/v1/qgpm/relevance" for path, _ in server.asked)


async def test_a_sample_without_evidence_is_not_asked_with_gold_evidence(tokenizer: Any) -> None:
    server = answers(tokenizer)
    sample = small_sample(evidence=())
    assert await server.asker(tokenizer).observe(sample, Key("single", 500, "gold", 0)) is None
    assert server.asked == []


async def test_a_refusal_names_the_sample(tokenizer: Any) -> None:
    with pytest.raises(LikelihoodError, match=r"multi_key.*number=7.*400"):
        await (
            answers(tokenizer, 400)
            .asker(tokenizer)
            .observe(small_sample(), Key("multi_key", 500, "plain", 7))
        )


@pytest.mark.parametrize(
    ("evidence", "rank"),
    [
        ((GOLD,), 2),
        (("opens with the number",), 2),
        ((GOLD, "Then the rain ended."), 2),
        (("rose. Nobody crossed",), 1),
        (("twice.",), 0),
        (("Nowhere.",), None),
        ((), None),
    ],
)
def test_the_best_sentence_that_holds_some_evidence_counts(
    evidence: tuple[str, ...], rank: int | None
) -> None:
    assert "".join(str(sentence["text"]) for sentence in SENTENCES) == CONTEXT
    assert best_rank(SENTENCES, evidence) == rank
