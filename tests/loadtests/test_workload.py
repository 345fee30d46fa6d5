import json

import httpx
import pytest

from loadtests.workload import Ask, Workload, tokens_per_sentence


def test_no_two_prompts_share_a_beginning() -> None:
    workload = Workload(per_sentence=12.0)
    prompts = [workload.body(500, seed=3, max_tokens=4)["prompt"] for _ in range(5)]
    assert len({prompt[:20] for prompt in prompts}) == 5


def test_prompts_of_one_seed_have_the_same_length_and_text_behind_the_number() -> None:
    workload = Workload(per_sentence=12.0)
    first, second = (workload.body(500, seed=3, max_tokens=4)["prompt"] for _ in range(2))
    assert len(first) == len(second)
    assert first.partition(".")[2] == second.partition(".")[2]


def test_another_seed_is_another_text() -> None:
    workload = Workload(per_sentence=12.0)
    first, second = (workload.body(500, seed=seed, max_tokens=4)["prompt"] for seed in (1, 2))
    assert first.partition(".")[2] != second.partition(".")[2]


def test_prompts_grow_with_the_tokens_that_are_asked_for() -> None:
    workload = Workload(per_sentence=12.0)
    short, long = (workload.body(n, seed=1, max_tokens=4)["prompt"] for n in (600, 6000))
    assert 8 < len(long) / len(short) < 12


def test_answers_are_greedy_and_of_a_fixed_length() -> None:
    body = Workload(per_sentence=12.0).body(100, seed=1, max_tokens=9)
    assert (body["max_tokens"], body["temperature"], body["ignore_eos"]) == (9, 0, True)


def test_heads_or_words_rank_whatever_the_guard_thinks() -> None:
    workload = Workload(per_sentence=12.0)
    assert "qgpm" not in workload.body(100, seed=1, max_tokens=9)
    asks: tuple[tuple[Ask, str], ...] = (("qgpm", "heads"), ("lexical", "lexical"))
    for ask, source in asks:
        field = workload.body(100, seed=1, max_tokens=9, ask=ask)["qgpm"]
        assert field == {"relevance": source, "guard": 0}


def test_evidence_is_a_passage_from_the_middle_of_the_text() -> None:
    body = Workload(per_sentence=12.0).body(1000, seed=1, max_tokens=9, ask="evidence")
    [passage] = body["qgpm"]["evidence"]
    place = body["prompt"].index(passage) / len(body["prompt"])
    assert len(passage) > 20
    assert 0.4 < place < 0.6


async def test_tokens_are_counted_over_many_sentences_of_several_texts() -> None:
    asked: list[str] = []

    def tokenize(request: httpx.Request) -> httpx.Response:
        text = json.loads(request.content)["prompt"]
        asked.append(text)
        return httpx.Response(200, json={"count": 3 * len(asked) * 200})

    async with httpx.AsyncClient(transport=httpx.MockTransport(tokenize)) as client:
        found = await tokens_per_sentence(client, "http://server")
    assert len(set(asked)) == 10
    assert found == 3 * (1 + 10) / 2


def test_questions_differ_on_one_document_of_the_wanted_length() -> None:
    workload = Workload(per_sentence=12.0)
    first, second = (workload.question(number, tokens=500, max_tokens=4)["prompt"] for number in (1, 2))
    assert first != second
    assert first.partition("Question:")[0] == second.partition("Question:")[0]
    assert workload.question(1, tokens=500, max_tokens=4)["prompt"] == first
    assert len(first) == pytest.approx(len(workload.body(500, seed=0, max_tokens=4)["prompt"]), rel=0.05)
