import pytest

from loadtests.workload import Workload


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


def test_qgpm_is_asked_for_by_name_only() -> None:
    workload = Workload(per_sentence=12.0)
    assert "qgpm" not in workload.body(100, seed=1, max_tokens=9)
    assert workload.body(100, seed=1, max_tokens=9, qgpm=True)["qgpm"] is True


def test_questions_differ_on_one_document_of_the_wanted_length() -> None:
    workload = Workload(per_sentence=12.0)
    first, second = (workload.question(number, tokens=500, max_tokens=4)["prompt"] for number in (1, 2))
    assert first != second
    assert first.partition("Question:")[0] == second.partition("Question:")[0]
    assert workload.question(1, tokens=500, max_tokens=4)["prompt"] == first
    assert len(first) == pytest.approx(len(workload.body(500, seed=0, max_tokens=4)["prompt"]), rel=0.05)
