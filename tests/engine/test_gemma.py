"""Gemma 3: windowed layers beside full ones, each kind with a base and a cache group of its own."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from transformers import AutoConfig

from cache.extra_args import ScoreTask
from positional.profile import Profile
from tests.support.asks import Ask
from tests.support.cases import Case, Oracle
from tests.support.checkpoints import WINDOW, make
from tests.support.engine import Engine, started
from tests.support.reference import Reference

HEADS = ((1, 2), (3, 0), (3, 3))


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make("gemma3", tmp_path_factory.mktemp("gemma3"))


@pytest.fixture(scope="module")
def oracle(model: Path) -> Oracle:
    return Oracle(Reference(model), HEADS)


@pytest.fixture(scope="module")
def shared_engine(model: Path) -> Iterator[Engine]:
    # By default vLLM keeps the windows of few places only; a request's second pass needs them at any place.
    options = {"max_num_batched_tokens": 64, "num_gpu_blocks_override": 64}
    with started(model, HEADS, **options, prefix_cache_retention_interval=None) as engine:
        yield engine


@pytest.fixture
def engine(shared_engine: Engine) -> Engine:
    shared_engine.forget()
    return shared_engine


def test_windowed_layers_stay_standard_and_full_ones_are_mapped(engine: Engine) -> None:
    layers = engine.state()["plan"]["layers"]
    assert [layer["map"] for layer in layers] == ["standard", "broad", "standard", "sharp"]
    assert [layer["span"] for layer in layers] == [WINDOW, "full", WINDOW, "full"]


def test_each_kind_of_layer_has_its_own_profile(engine: Engine) -> None:
    plan = engine.state()["plan"]
    bases = [plan["profiles"][layer["profile"]]["base"] for layer in plan["layers"]]
    assert bases == [10_000.0, 1_000_000.0, 10_000.0, 1_000_000.0]


def test_moved_and_plain_requests_in_one_batch(engine: Engine, oracle: Oracle) -> None:
    moved, plain = Case(1, 200, forced=40), Case(2, 150, forced=40)
    answers = engine.run(moved.moved(), plain.plain(at=1))
    assert [answer.logprobs for answer in answers] == [oracle.moved(moved), oracle.plain(plain)]
    assert answers[0].logprobs != oracle.plain(moved)


def test_the_passes_share_blocks_whose_window_is_cached(engine: Engine, oracle: Oracle) -> None:
    case = Case(3, 200, relevant=8)
    score = engine.answer(case.scored())
    assert oracle.hears(case, score)
    answer = engine.answer(case.moved())
    assert answer.cached == case.modulation.standard_until // 32 * 32 == 96
    assert answer.logprobs == oracle.moved(case)
    again = engine.answer(case.moved())
    assert again.cached == 192
    assert again.logprobs == oracle.moved(case)
    warm = engine.answer(case.scored())
    assert warm.cached == 160
    assert oracle.hears(case, warm)


def test_a_prompt_that_shares_a_half_whose_window_is_gone(engine: Engine, oracle: Oracle) -> None:
    first, second = Case(4, 300), Case(5, 300)
    second.prompt[:130] = first.prompt[:130]
    engine.answer(first.plain())
    answers = engine.run(second.moved(), second.scored(at=1))
    assert answers[0].logprobs == oracle.moved(second)
    assert oracle.hears(second, answers[1])


def test_a_question_that_begins_the_prompt_is_never_skipped(engine: Engine) -> None:
    task = ScoreTask.of([0, 1, 99], [(40, 60), (60, 90)], [])
    first, again = (engine.answer(Ask(Case(70, 100).prompt, task=task)) for _ in range(2))
    assert first.cached == again.cached == 0
    assert first.relevance is not None
    assert again.relevance is not None
    assert first.relevance.tolist() == again.relevance.tolist()


def test_preemption_changes_nothing(engine: Engine, oracle: Oracle) -> None:
    case, scored = Case(6, 150, forced=20), Case(7, 180)
    answers = engine.run(case.moved(), scored.scored(), preempt_before=(2, 4, 9, 15))
    assert answers[0].logprobs == oracle.moved(case)
    assert oracle.hears(scored, answers[1])


def test_score_passes_have_the_window_of_a_shared_prefix_kept(model: Path, oracle: Oracle) -> None:
    cases = [Case(seed, 200) for seed in (8, 9, 10)]
    for case in cases[1:]:
        case.prompt[:130] = cases[0].prompt[:130]
    with started(model, HEADS, max_num_batched_tokens=64, num_gpu_blocks_override=64) as engine:
        scores = [engine.answer(case.scored()) for case in cases]
        # The second finds that it shares more than is kept, and has it kept for the third.
        assert [score.cached for score in scores] == [0, 0, 128]
        assert all(oracle.hears(case, score) for case, score in zip(cases, scores, strict=True))
        assert engine.answer(cases[0].moved()).logprobs == oracle.moved(cases[0])


def test_a_requests_rule_leaves_windowed_layers_of_another_rule_alone(engine: Engine, model: Path) -> None:
    """vllm#29111, llama.cpp#14367: Gemma 3's scaling leaked into local layers."""
    rule = {"full_attention": _rule(5_000.0, factor=3.0), "sliding_attention": _rule(10_000.0)}
    _hold_under_rule(engine, model, rule)


def test_windowed_layers_of_the_same_rule_follow_a_requests(tmp_path: Path) -> None:
    kinds = ("full_attention", "sliding_attention")
    model = make("gemma3", tmp_path, rope_parameters=dict.fromkeys(kinds, _rule(1_000_000.0)))
    with started(model, HEADS, max_num_batched_tokens=64, num_gpu_blocks_override=64) as engine:
        assert engine.answer(Case(21, 150).moved()).logprobs == Oracle(Reference(model), HEADS).moved(
            Case(21, 150)
        )
        _hold_under_rule(engine, model, dict.fromkeys(kinds, _rule(5_000.0, factor=3.0)))


def _rule(base: float, factor: float | None = None) -> dict[str, Any]:
    scaling = {"rope_type": "default"} if factor is None else {"rope_type": "linear", "factor": factor}
    return {"rope_theta": base, **scaling}


def _hold_under_rule(engine: Engine, model: Path, rule: dict[str, Any]) -> None:
    oracle = Oracle(Reference(model, rule), HEADS)
    config = AutoConfig.from_pretrained(model)
    config.rope_parameters = rule
    profile = Profile.from_config(config, layer_type="full_attention")
    plain, moved, scored = Case(22, 200, forced=20), Case(23, 170, forced=20), Case(24, 150)
    answers = engine.run(
        plain.plain(profile=profile), moved.moved(profile=profile), scored.scored(profile=profile, at=1)
    )
    assert answers[0].logprobs == oracle.plain(plain)
    assert answers[1].logprobs == oracle.moved(moved)
    assert oracle.hears(scored, answers[2])
