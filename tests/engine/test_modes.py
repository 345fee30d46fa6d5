"""The same answers under the engine's other modes: compiled, on two ranks, with adapters switched on."""

from pathlib import Path
from typing import Any

import pytest

from tests.support.cases import Case, Oracle
from tests.support.checkpoints import make
from tests.support.engine import Engine, EngineStartError, started
from tests.support.reference import Reference

# On two ranks of two query heads each, both ranks hold some of every kind.
HEADS = ((3, 1), (1, 0), (1, 3), (2, 2))


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make("llama", tmp_path_factory.mktemp("llama"))


@pytest.fixture(scope="module")
def oracle(model: Path) -> Oracle:
    return Oracle(Reference(model), HEADS)


def check(engine: Engine, oracle: Oracle) -> None:
    case, other, scored = Case(1, 150, forced=20), Case(2, 90, forced=30), Case(3, 170)
    assert oracle.hears(case, engine.answer(case.scored()))
    assert engine.answer(case.moved()).logprobs == oracle.moved(case)
    answers = engine.run(
        case.moved(), scored.scored(), other.moved(at=1), other.plain(), preempt_before=(3, 6)
    )
    assert [answers[index].logprobs for index in (0, 2, 3)] == [
        oracle.moved(case),
        oracle.moved(other),
        oracle.plain(other),
    ]
    assert oracle.hears(scored, answers[1])
    assert oracle.hears(case, engine.answer(case.scored()))


def mode(model: Path, **options: Any) -> Any:
    return started(model, HEADS, max_num_batched_tokens=64, **options)


@pytest.mark.long
def test_wrapped_modules_of_adapters_leave_positions_alone(model: Path, oracle: Oracle) -> None:
    with mode(model, enable_lora=True, max_lora_rank=8) as engine:
        check(engine, oracle)


@pytest.mark.long
@pytest.mark.usefixtures("two_cores")
def test_heads_on_both_ranks_are_heard(model: Path, oracle: Oracle) -> None:
    with mode(model, tensor_parallel_size=2) as engine:
        check(engine, oracle)


@pytest.mark.long
def test_a_compiled_model_reads_the_rows_of_the_step(model: Path, oracle: Oracle) -> None:
    with mode(model, enforce_eager=False) as engine:
        check(engine, oracle)


def test_the_asynchronous_scheduler_carries_positions_and_relevance(model: Path, oracle: Oracle) -> None:
    with mode(model, scheduler_cls="cache.scheduler.RopewayAsyncScheduler") as engine:
        assert engine.state()["scheduler"] == "RopewayAsyncScheduler"
        check(engine, oracle)


def test_an_engine_whose_keys_come_from_elsewhere_is_refused(model: Path, tmp_path: Path) -> None:
    connector = {
        "kv_connector": "ExampleConnector",
        "kv_role": "kv_both",
        "kv_connector_extra_config": {"shared_storage_path": str(tmp_path)},
    }
    with (
        pytest.raises(EngineStartError, match="UnsupportedEngineError: KV connectors and KV offloading"),
        mode(model, kv_transfer_config=connector),
    ):
        pass
