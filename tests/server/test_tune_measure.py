import json
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from statistics import fmean
from typing import Any

import httpx
import pytest
from transformers import AutoTokenizer

from cache.extra_args import FORCE_TOKENS
from positional.qgpm import PACKAGE_DEFAULTS
from server.samples import KINDS, Sample
from server.tune_measure import Asked, Measure
from tests.support import checkpoints

LENGTHS = (200, 400)


class Answers:
    """A server that forces tokens: all of one log-probability, by the field `qgpm` of the request."""

    def __init__(self, logprob: Callable[[Any], float]) -> None:
        self.logprob = logprob
        self.bodies: list[dict[str, Any]] = []

    def __call__(self, request: httpx.Request) -> httpx.Response:
        body = json.loads(request.content)
        self.bodies.append(body)
        tokens = body["vllm_xargs"][FORCE_TOKENS]
        content = [{"logprob": self.logprob(body["qgpm"])} for _ in tokens]
        choice = {"token_ids": tokens, "logprobs": {"content": content}}
        return httpx.Response(200, json={"id": "1", "usage": {"prompt_tokens": 9}, "choices": [choice]})

    def fields(self) -> list[Any]:
        return [body["qgpm"] for body in self.bodies]


@pytest.fixture(scope="module")
def tokenizer(tmp_path_factory: pytest.TempPathFactory) -> Any:
    folder = tmp_path_factory.mktemp("tokenizer")
    checkpoints.make_tokenizer().save_pretrained(folder)
    return AutoTokenizer.from_pretrained(Path(folder))


def measure(server: Answers, tokenizer: Any, seed: int = 0) -> Measure:
    client = httpx.AsyncClient(transport=httpx.MockTransport(server))
    return Measure(Asked(client, "http://server", "tuned", tokenizer), LENGTHS, seed)


def by_source(field: Any) -> float:
    if field is False:
        return -3.0
    return -1.0 if "evidence" in field else -5.0


async def test_gains_are_paired_with_the_plain_answer_and_averaged_over_kinds(tokenizer: Any) -> None:
    measured = measure(Answers(by_source), tokenizer)

    gain = await measured.gain(PACKAGE_DEFAULTS, 0)

    block = measured.blocks[0]
    # The lead-in is forced, but no part of the answer.
    # Of several answers each is forced alone, and their mean counts.
    tokens = fmean(fmean(gold.counted for gold in golds) for golds in block.golds)
    assert all(gold.lead for golds in block.golds for gold in golds)
    assert gain.evidence == pytest.approx(2 * tokens)
    assert gain.heads == pytest.approx(-2 * tokens)
    assert gain.total == pytest.approx(0)


async def test_a_block_holds_every_kind_and_is_asked_plainly_once(tokenizer: Any) -> None:
    server = Answers(by_source)
    measured = measure(server, tokenizer)

    for score_low in (0.3, 0.6, 0.9):
        await measured.gain(PACKAGE_DEFAULTS.resolve({"score_low": score_low}), 0)

    assert [sample.kind for sample in measured.blocks[0].samples] == list(KINDS)
    answers = sum(len(sample.answers) for sample in measured.blocks[0].samples)
    assert answers > len(KINDS)
    assert server.fields().count(False) == answers
    assert len(server.bodies) == answers * (1 + 3 * 2)


async def test_requests_hold_all_settings_and_gold_evidence_lifts_k(tokenizer: Any) -> None:
    server = Answers(by_source)
    config = PACKAGE_DEFAULTS.resolve({"k_sharp": 2, "k_broad": 3, "gate_width": 0.7})

    measured = measure(server, tokenizer)
    await measured.gain(config, 0)

    by_context: dict[str, Sample] = {sample.context: sample for sample in measured.blocks[0].samples}
    for field in filter(None, server.fields()):
        sample = by_context[field["context"]]
        assert field["question"] == sample.question
        k_sharp = 2
        if "evidence" in field:
            assert field["evidence"] == list(sample.evidence)
            k_sharp = max(2, len(sample.evidence))
        expected = {**asdict(config), "k_sharp": k_sharp, "k_broad": max(3, k_sharp + 1)}
        assert {name: field[name] for name in expected} == expected
    assert any(len(sample.evidence) > 2 for sample in by_context.values())


async def test_blocks_and_seeds_differ_and_lengths_take_turns(tokenizer: Any) -> None:
    measured = measure(Answers(by_source), tokenizer)
    other = measure(Answers(by_source), tokenizer, seed=1)
    for number in (0, 1):
        await measured.gain(PACKAGE_DEFAULTS, number)
    await other.gain(PACKAGE_DEFAULTS, 0)

    blocks = [*measured.blocks.values(), *other.blocks.values()]
    contexts = [sample.context for block in blocks for sample in block.samples]
    assert len(set(contexts)) == len(contexts)
    one, two = (block.samples for block in measured.blocks.values())
    assert all(a.length != b.length for a, b in zip(one, two, strict=True))
    assert len({round(sample.depth, 1) for sample in one}) > 2
