"""One engine whose steps hold 32 tokens and whose cache holds 32 blocks of 32: everything is chunked."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from cache.extra_args import ScoreTask
from positional.modulation import Modulation
from tests.support.asks import Ask
from tests.support.cases import Case, Oracle
from tests.support.checkpoints import make
from tests.support.engine import Engine, started
from tests.support.reference import Reference

HEADS = ((3, 1), (1, 0), (1, 3), (2, 2))
OPTIONS: dict[str, Any] = {
    "max_model_len": 960,
    "max_num_batched_tokens": 32,
    "max_num_seqs": 8,
    "num_gpu_blocks_override": 32,
}


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make("llama", tmp_path_factory.mktemp("llama"))


@pytest.fixture(scope="module")
def oracle(model: Path) -> Oracle:
    return Oracle(Reference(model), HEADS)


@pytest.fixture(scope="module")
def shared_engine(model: Path) -> Iterator[Engine]:
    with started(model, HEADS, **OPTIONS) as engine:
        yield engine


@pytest.fixture
def engine(shared_engine: Engine) -> Engine:
    shared_engine.forget()
    return shared_engine


def test_forty_tokens_in_chunks_of_thirty_two(engine: Engine, oracle: Oracle) -> None:
    """vllm#10388, mlx-vlm#1755: all positions were fed to each chunk."""
    case = Case(1, 40, begin=5)
    answer = engine.answer(case.moved())
    assert answer.logprobs == oracle.moved(case)
    assert answer.logprobs != oracle.plain(case)


def test_many_chunks_and_decoding_across_block_borders(engine: Engine, oracle: Oracle) -> None:
    case = Case(2, 150, forced=80)
    assert engine.answer(case.moved()).logprobs == oracle.moved(case)


def test_two_modulated_and_a_plain_request_in_one_batch(engine: Engine, oracle: Oracle) -> None:
    """Ms-PoE: one prompt's state stayed on the module and leaked into the next."""
    cases = [Case(3, 120, forced=30), Case(4, 90, forced=40), Case(5, 70, forced=50)]
    asks = [cases[0].moved(), cases[1].moved(at=2), cases[2].plain(at=3)]
    answers = engine.run(*asks)
    expected = [oracle.moved(cases[0]), oracle.moved(cases[1]), oracle.plain(cases[2])]
    assert [answer.logprobs for answer in answers] == expected


def test_plain_requests_beside_modulated_ones_are_stock_bit_for_bit(engine: Engine, model: Path) -> None:
    plain = [Case(6, 100, forced=20), Case(7, 75, forced=30)]
    other = Case(8, 60, forced=30)
    with started(model, stock=True, **OPTIONS) as stock:
        expected = stock.run(plain[0].plain(), other.plain(at=1), plain[1].plain(at=2))
    found = engine.run(plain[0].plain(), other.moved(at=1), plain[1].plain(at=2))
    assert [found[0].logprobs, found[2].logprobs] == [expected[0].logprobs, expected[2].logprobs]
    assert found[1].logprobs != expected[1].logprobs


def test_every_choice_of_a_modulated_request_is_modulated(engine: Engine, oracle: Oracle) -> None:
    case = Case(9, 100, forced=20)
    answer = engine.answer(case.moved(n=3))
    expected = oracle.moved(case)
    assert answer.choices == (expected,) * 3


def test_prompt_logprobs_are_those_of_the_moved_tokens(engine: Engine, oracle: Oracle) -> None:
    case = Case(10, 100)
    engine.answer(case.moved())
    answer = engine.answer(case.moved(prompt_logprobs=True))
    assert answer.cached == 0
    assert answer.prompt_logprobs == oracle.moved_prompt(case)


def test_the_passes_of_one_prompt_share_blocks(engine: Engine, oracle: Oracle) -> None:
    case = Case(11, 200, relevant=6)
    protected = case.modulation.standard_until
    # The relevant sentence itself, tokens 72 to 82, stands at its standard places too.
    assert protected == 82
    assert engine.answer(case.plain()).cached == 0
    # 191 is the first query row: the score pass recomputes its block.
    score = engine.answer(case.scored())
    assert score.cached == 160
    assert oracle.hears(case, score)
    assert engine.answer(case.moved()).cached == protected // 32 * 32
    again = engine.answer(case.moved())
    assert again.cached == 192
    assert again.logprobs == oracle.moved(case)


def test_other_coordinates_hit_nothing_behind_the_protected_prefix(engine: Engine) -> None:
    case = Case(12, 200, relevant=6)
    other = Case(12, 200, relevant=6)
    other.relevance[-2], other.relevance[-1] = 0.0, 1.0
    engine.answer(case.moved())
    protected = case.modulation.standard_until // 32 * 32
    assert protected == 64
    assert engine.answer(other.moved()).cached == protected
    assert engine.answer(case.plain()).cached == protected


def test_shared_coordinates_hit_as_far_as_they_are_shared(engine: Engine) -> None:
    prompt = Case(33, 200).prompt
    first = Modulation((0, 40, 100, 150), (1.0, 0.4, 0.7, 1.0), (1.0, 0.3, 0.5, 1.0), 20.0, 0.5, 0.1)
    later = Modulation((0, 40, 100, 150), (1.0, 0.4, 0.6, 1.0), (1.0, 0.3, 0.5, 1.0), 20.0, 0.5, 0.1)
    assert engine.answer(Ask(prompt, modulation=first)).cached == 0
    assert engine.answer(Ask(prompt, modulation=later)).cached == 96
    assert engine.answer(Ask(prompt, modulation=replace(first, anchor_length=21.0))).cached == 32
    assert engine.answer(Ask(prompt, modulation=first)).cached == 192


def test_a_salt_separates_modulated_requests(engine: Engine) -> None:
    case = Case(13, 130)
    engine.answer(case.moved())
    assert engine.answer(case.moved(salt="a")).cached == 0
    assert engine.answer(case.moved(salt="b")).cached == 0
    assert engine.answer(case.moved(salt="a")).cached == 128


def test_a_hit_of_one_block_keeps_absolute_positions(engine: Engine, oracle: Oracle) -> None:
    """LMCache-Ascend#282: an index local to the suffix was used on the whole prompt."""
    case = Case(14, 140, begin=34)
    engine.answer(Ask(case.prompt[:33]))
    answer = engine.answer(case.moved())
    assert answer.cached == 32
    assert answer.logprobs == oracle.moved(case)


def test_a_prompt_of_cached_blocks_only(engine: Engine, oracle: Oracle) -> None:
    """LMCache#938: a prompt that was cached as a whole crashed."""
    case = Case(15, 128)
    expected = oracle.moved(case)
    assert engine.answer(case.moved()).logprobs == expected
    again = engine.answer(case.moved())
    assert again.cached == 96
    assert again.logprobs == expected
    score = [engine.answer(case.scored()) for _ in range(2)]
    assert [answer.cached for answer in score] == [case.modulation.standard_until // 32 * 32, 96]
    for answer in score:
        assert oracle.hears(case, answer)


def test_every_context_token_is_heard_after_a_prefix_hit(engine: Engine, oracle: Oracle) -> None:
    """vllm#3251, vllm#8268, vllm#42245: results by token were missing for cached tokens."""
    case = Case(16, 110, begin=3)
    cold = engine.answer(case.scored())
    engine.forget()
    engine.answer(Ask(case.prompt[:70]))
    warm = engine.answer(case.scored())
    assert (cold.cached, warm.cached) == (0, 64)
    for answer in (cold, warm):
        assert oracle.hears(case, answer)


def test_score_passes_beside_other_requests(engine: Engine, oracle: Oracle) -> None:
    cases = [Case(17, 130), Case(18, 90), Case(19, 60, forced=30)]
    answers = engine.run(cases[0].scored(), cases[1].scored(at=1), cases[2].moved(at=1))
    assert oracle.hears(cases[0], answers[0])
    assert oracle.hears(cases[1], answers[1])
    assert answers[2].relevance is None
    assert answers[2].logprobs == oracle.moved(cases[2])


def test_a_question_that_begins_the_prompt_is_never_skipped(engine: Engine) -> None:
    task = ScoreTask.of([0, 1, 99], [(40, 60), (60, 90)], [])
    first, again = (engine.answer(Ask(Case(70, 100).prompt, task=task)) for _ in range(2))
    assert first.cached == again.cached == 0
    assert first.relevance is not None
    assert again.relevance is not None
    assert first.relevance.tolist() == again.relevance.tolist()


def test_preemption_changes_nothing(engine: Engine, oracle: Oracle) -> None:
    moved, plain, scored = Case(20, 100, forced=20), Case(21, 60, forced=20), Case(22, 150)
    # Before step 5 prompts are partly read, before 12 tokens are out, and a score pass has kept query rows.
    answers = engine.run(moved.moved(), plain.plain(), scored.scored(), preempt_before=(2, 5, 8, 12, 20))
    assert answers[0].logprobs == oracle.moved(moved)
    assert answers[1].logprobs == oracle.plain(plain)
    assert oracle.hears(scored, answers[2])


def test_a_request_preempted_after_three_outputs_goes_on(engine: Engine, oracle: Oracle) -> None:
    """vllm#16832, vllm-gaudi#524: resumed with its prompt's length for its total length."""
    case = Case(23, 40, forced=12, begin=5)
    # Two steps of prompt, the second gives the first token.
    answer = engine.run(case.moved(), preempt_before=(4,))[0]
    assert answer.logprobs == oracle.moved(case)
    assert answer.finished_at > engine.run(case.moved())[0].finished_at


def test_too_little_memory_for_all_changes_nothing(engine: Engine, oracle: Oracle) -> None:
    cases = [Case(24 + number, 100 + 7 * number, forced=200) for number in range(5)]
    asks = [case.moved() if number % 2 == 0 else case.plain() for number, case in enumerate(cases)]
    before = engine.state()["preemptions"]
    scored = Case(30, 240)
    *answers, score = engine.run(*asks, scored.scored(at=30))
    assert engine.state()["preemptions"] > before
    for number, (case, answer) in enumerate(zip(cases, answers, strict=True)):
        assert answer.logprobs == (oracle.moved(case) if number % 2 == 0 else oracle.plain(case))
    assert oracle.hears(scored, score)


def test_ended_and_aborted_requests_leave_nothing_behind(engine: Engine) -> None:
    case, other = Case(31, 120, forced=20), Case(32, 60, forced=40)
    engine.run(
        case.moved(abort_at=2),
        case.scored(abort_at=3),
        case.moved(at=1, abort_at=20),
        other.plain(),
        case.scored(),
    )
    engine.run(other.plain())
    assert engine.state()["followed"] == []


def test_an_answer_goes_before_requests_that_wait(engine: Engine) -> None:
    running = [Case(40 + number, 50, forced=30) for number in range(8)]
    waiting, first = Case(50, 50, forced=1), Case(51, 50, forced=1)
    asks = [case.plain() for case in running]
    *_, waited, answered = engine.run(*asks, waiting.plain(at=2), first.plain(first=True, at=3))
    assert answered.finished_at < waited.finished_at


def test_rows_are_filled_where_they_always_were(engine: Engine) -> None:
    before = engine.state()["row_pointers"]
    engine.answer(Case(60, 100).moved())
    assert len(before) == 2
    assert engine.state()["row_pointers"] == before


def test_the_lower_half_is_broad_and_the_upper_sharp(engine: Engine) -> None:
    layers = engine.state()["plan"]["layers"]
    assert [layer["map"] for layer in layers] == ["broad", "broad", "sharp", "sharp"]
    assert {layer["span"] for layer in layers} == {"full"}
