"""SmolLM3, which vLLM does not have: rotation and windows that follow no common rule."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from transformers import SmolLM3Config

from tests.support.cases import Case, Oracle
from tests.support.checkpoints import WINDOW, initialised, make_tokenizer
from tests.support.engine import Engine, started
from tests.support.reference import Reference

ROTATED = [1, 0, 0, 1, 1, 1]
FULL = [False, True, False, True, False, True]


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Of every kind one layer at least: rotated and not, with a window and without."""
    folder = tmp_path_factory.mktemp("smollm3")
    tokenizer = make_tokenizer()
    config = SmolLM3Config(
        vocab_size=len(tokenizer),
        hidden_size=128,
        intermediate_size=256,
        num_hidden_layers=len(ROTATED),
        num_attention_heads=4,
        num_key_value_heads=2,
        max_position_embeddings=4096,
        no_rope_layers=ROTATED,
        layer_types=["full_attention" if full else "sliding_attention" for full in FULL],
        use_sliding_window=True,
        sliding_window=WINDOW,
        attention_bias=True,
        bos_token_id=None,
        eos_token_id=tokenizer.eos_token_id,
        pad_token_id=tokenizer.pad_token_id,
    )
    initialised(config, seed=0).save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return folder


@pytest.fixture(scope="module")
def oracle(model: Path) -> Oracle:
    return Oracle(Reference(model))


@pytest.fixture(scope="module")
def shared_engine(model: Path) -> Iterator[Engine]:
    # By default vLLM keeps the windows of few places only.
    options = {"max_num_batched_tokens": 64, "num_gpu_blocks_override": 128}
    with started(model, **options, prefix_cache_retention_interval=None) as engine:
        yield engine


@pytest.fixture
def engine(shared_engine: Engine) -> Engine:
    shared_engine.forget()
    return shared_engine


def test_the_plan_is_that_of_the_flags(engine: Engine) -> None:
    """smollm#130, transformers#43756: 1 was read as a layer without rotation."""
    layers = engine.state()["plan"]["layers"]
    assert [layer["rotary"] for layer in layers] == [flag == 1 for flag in ROTATED]
    assert [layer["span"] for layer in layers] == ["full" if full else WINDOW for full in FULL]
    assert [layer["map"] for layer in layers] == [*["standard"] * 3, "sharp", "standard", "sharp"]


@pytest.mark.parametrize("length", [WINDOW - 1, WINDOW, WINDOW + 1, 3 * WINDOW])
def test_prompts_around_the_window_cold_and_warm(length: int, engine: Engine, oracle: Oracle) -> None:
    case = Case(length, length)
    cold, warm = (engine.answer(case.plain()) for _ in range(2))
    assert cold.logprobs == warm.logprobs == oracle.plain(case)
    assert (cold.cached, warm.cached) == (0, (length - 1) // 32 * 32)


def test_preempted_requests_that_decode_across_the_window_beside_moved_ones(
    engine: Engine, oracle: Oracle
) -> None:
    crossing = Case(1, WINDOW - 8, forced=2 * WINDOW, begin=1)
    moved, plain = Case(8, 200, forced=40), Case(9, 150, forced=40)
    answers = engine.run(crossing.plain(), moved.moved(), plain.plain(at=1), preempt_before=(2, 5, 9, 15, 24))
    expected = [oracle.plain(crossing), oracle.moved(moved), oracle.plain(plain)]
    assert [answer.logprobs for answer in answers] == expected
    assert answers[1].logprobs != oracle.plain(moved)
