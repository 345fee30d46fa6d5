"""Models of Ropeway's own architecture: layers with windows and without, rotated in full, in part, or not."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from cache.accounting import Pool
from tests.support.asks import Ask
from tests.support.cases import Case, Oracle
from tests.support.engine import Engine, started
from tests.support.hybrid_reference import HybridReference
from tests.support.hybrids import WINDOW, make_hybrid

SHORT = ("3:1", "global rotary")
LONG = ("1:1", "5:1", "all-NoPE", "partial", "local only", "all global")
# Heads of the patterns whose global layers rotate; those of other layers cannot be read.
HEADS: dict[str, tuple[tuple[int, int], ...]] = {
    "global rotary": ((1, 2), (3, 0), (3, 3)),
    "partial": ((3, 1), (1, 0)),
    "all global": ((0, 3), (2, 1), (3, 2)),
}
OPTIONS: dict[str, Any] = {
    "max_model_len": 8448,
    "max_num_batched_tokens": 64,
    "num_gpu_blocks_override": 1400,
    # By default vLLM keeps the windows of few places only.
    "prefix_cache_retention_interval": None,
}


@pytest.fixture(
    scope="module", params=[*SHORT, *(pytest.param(name, marks=pytest.mark.long) for name in LONG)]
)
def pattern(request: pytest.FixtureRequest) -> str:
    name: str = request.param
    return name


@pytest.fixture(scope="module")
def model(pattern: str, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_hybrid(pattern, tmp_path_factory.mktemp("hybrid"))


@pytest.fixture(scope="module")
def oracle(pattern: str, model: Path) -> Oracle:
    return Oracle(HybridReference(model), HEADS.get(pattern, ()))


@pytest.fixture(scope="module")
def shared_engine(pattern: str, model: Path) -> Iterator[Engine]:
    with started(model, HEADS.get(pattern, ()), **OPTIONS) as engine:
        yield engine


@pytest.fixture
def engine(shared_engine: Engine) -> Engine:
    shared_engine.forget()
    return shared_engine


@pytest.mark.parametrize("length", [WINDOW - 1, WINDOW, WINDOW + 1, 3 * WINDOW])
def test_prompts_around_the_window(length: int, engine: Engine, oracle: Oracle) -> None:
    """Those of three windows come in chunks, whose borders are not the window's."""
    case = Case(length, length)
    assert engine.answer(case.plain()).logprobs == oracle.plain(case)


def test_decoding_across_the_border_of_the_window(engine: Engine, oracle: Oracle) -> None:
    """transformers#38156: a length was read from a windowed layer."""
    case = Case(1, WINDOW - 8, forced=2 * WINDOW, begin=1)
    assert engine.answer(case.plain()).logprobs == oracle.plain(case)


def test_prompts_of_all_lengths_in_one_batch(engine: Engine, oracle: Oracle) -> None:
    cases = [Case(10 + length, length, forced=30) for length in (38, 40, 47, 70, 150, 200)]
    answers = engine.run(*(case.plain(at=number) for number, case in enumerate(cases)))
    assert [answer.logprobs for answer in answers] == [oracle.plain(case) for case in cases]


def test_a_prompt_again_hits_all_its_full_blocks(engine: Engine, oracle: Oracle) -> None:
    case = Case(2, 3 * WINDOW)
    assert engine.answer(case.plain()).cached == 0
    again = engine.answer(case.plain())
    assert again.cached == 128
    assert again.logprobs == oracle.plain(case)


def test_a_prompt_that_shares_a_half_whose_window_is_gone(engine: Engine, oracle: Oracle) -> None:
    """TensorRT-LLM#2912, sglang#8649: a prefix was used again after its window's blocks were evicted."""
    first, second = Case(3, 300), Case(4, 300)
    second.prompt[:130] = first.prompt[:130]
    engine.answer(first.plain())
    assert engine.answer(second.plain()).logprobs == oracle.plain(second)


def test_preempted_requests_go_on_as_if_undisturbed(engine: Engine, oracle: Oracle) -> None:
    """vllm#16832: resumed with the prompt's length for the total length."""
    cases = [Case(5, 3 * WINDOW, forced=30), Case(6, WINDOW - 5, forced=30), Case(7, 250, forced=10)]
    answers = engine.run(*(case.plain() for case in cases), preempt_before=(2, 5, 9, 15, 24))
    assert [answer.logprobs for answer in answers] == [oracle.plain(case) for case in cases]


def test_a_long_request_holds_what_its_plan_says(engine: Engine) -> None:
    """Blocks that left the window are given back."""
    pool = Pool.from_json(engine.state()["pools"][0])
    memories = engine.memories(Ask([7] * 7990, [5] * 20))
    # 125 steps read the prompt; behind each later one but the last the request holds one token more.
    held = [sum(group["bytes_used"] for group in m["pools"][0]["groups"]) for m in memories[125:143]]
    assert held == [pool.request_bytes(tokens) for tokens in range(7991, 8009)]


def test_the_plan_is_that_of_the_configuration(pattern: str, engine: Engine, model: Path) -> None:
    layers = engine.state()["plan"]["layers"]
    expected = HybridReference(model).layers
    assert [layer["span"] for layer in layers] == [layer["window"] or "full" for layer in expected]
    assert [layer["rotary"] for layer in layers] == [layer["rotary"] != "none" for layer in expected]
    half = len(expected) // 2
    maps = ["broad" if number < half else "sharp" for number in range(len(expected))]
    mapped = [layer["rotary"] != "none" and layer["window"] is None for layer in expected]
    assert [layer["map"] for layer in layers] == [
        name if moves else "standard" for name, moves in zip(maps, mapped, strict=True)
    ]
    assert any(mapped) == (pattern in HEADS)


def test_moved_and_plain_requests_in_one_batch(pattern: str, engine: Engine, oracle: Oracle) -> None:
    moved, plain = Case(8, 200, forced=40), Case(9, 150, forced=40)
    answers = engine.run(moved.moved(), plain.plain(at=1))
    assert [answer.logprobs for answer in answers] == [oracle.moved(moved), oracle.plain(plain)]
    assert (answers[0].logprobs != oracle.plain(moved)) == (pattern in HEADS)


def test_both_passes_of_a_question(pattern: str, engine: Engine, oracle: Oracle) -> None:
    case = Case(12, 200, relevant=8)
    if pattern not in HEADS:
        assert engine.state()["shadow_bytes"] == 0
        return
    score = engine.answer(case.scored())
    assert oracle.hears(case, score)
    answer = engine.answer(case.moved())
    assert answer.cached == case.modulation.standard_until // 32 * 32 == 96
    assert answer.logprobs == oracle.moved(case)


def test_keys_of_one_token_tell_where_it_stands_only_as_far_as_a_layer_rotates(
    engine: Engine, model: Path
) -> None:
    """In a prompt of one token again and again all states are alike, so only rotation tells keys apart.

    transformers#43756, smollm#130: which layers rotate was read inverted.
    """
    reference = HybridReference(model)
    first, *shifted = engine.keys(Ask([7] * 8200), (0, 1, 100, 8192))
    for keys in shifted:
        for before, after, width in zip(first, keys, reference.rotary_widths, strict=True):
            moved = abs(before - after).reshape(-1, reference.head_dim).max(axis=0) > 1e-3
            assert moved[:width].any() == (width > 0)
            assert not moved[width:].any()


def test_what_lies_outside_all_windows_is_not_read(pattern: str, engine: Engine) -> None:
    """vllm#11357: a missing window fell back to one on global layers, which then lost the first token."""
    case, other = Case(11, 200), Case(11, 200)
    other.prompt[0] += 1
    one, two = (engine.answer(each.plain()).logprobs for each in (case, other))
    assert (one == two) == (pattern == "local only")
