"""Contexts that begin at token 0, 1 and 8192 of prompts read in chunks of 2,048 tokens."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.cases import Case, Oracle
from tests.support.checkpoints import make
from tests.support.engine import Engine, started
from tests.support.reference import Reference

HEADS = ((1, 1), (3, 2))
MEMORY = 40 << 20


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make("llama", tmp_path_factory.mktemp("llama"), max_positions=16384, layers=4)


@pytest.fixture(scope="module")
def oracle(model: Path) -> Oracle:
    return Oracle(Reference(model), HEADS)


@pytest.fixture(scope="module")
def engine(model: Path) -> Iterator[Engine]:
    with started(
        model, HEADS, max_model_len=16384, max_num_batched_tokens=2048, kv_cache_memory_bytes=MEMORY
    ) as engine:
        yield engine


@pytest.mark.parametrize("begin", [0, 1, 8192])
def test_a_context_is_moved_from_where_it_begins(begin: int, engine: Engine, oracle: Oracle) -> None:
    case = Case(begin, max(400, begin + 300), begin=begin)
    answer = engine.answer(case.moved())
    assert answer.logprobs == oracle.moved(case, tolerance=1e-2)
    assert answer.logprobs != oracle.plain(case, tolerance=5e-2)


def test_a_context_far_into_the_prompt_is_heard(engine: Engine, oracle: Oracle) -> None:
    case = Case(5, 8192 + 300, begin=8192)
    assert oracle.hears(case, engine.answer(case.scored()), tolerance=1e-2)


def test_a_long_context_behind_its_first_sentence_is_moved(engine: Engine, oracle: Oracle) -> None:
    case = Case(7, 6000)
    assert engine.answer(case.moved()).logprobs == oracle.moved(case, tolerance=1e-2)


def test_cache_and_key_shadow_stay_within_the_memory_given_for_the_cache(engine: Engine) -> None:
    state = engine.state()
    assert state["shadow_bytes"] > 0
    assert 0.98 * MEMORY < state["cache_bytes"] + state["shadow_bytes"] <= MEMORY
