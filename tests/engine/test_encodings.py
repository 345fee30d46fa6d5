"""Encodings beside RoPE and NoPE in real engines: with what vLLM adds to its layers, and in bf16 far out."""

from pathlib import Path
from typing import Any

import pytest

from tests.support.asks import Ask
from tests.support.cases import Case, Oracle
from tests.support.engine import started
from tests.support.hybrid_reference import HybridReference
from tests.support.hybrids import ENCODED, PATTERNS, make_hybrid
from tests.support.int8 import quantised

pytestmark = pytest.mark.long

OPTIONS: dict[str, Any] = {
    "max_model_len": 1024,
    "max_num_batched_tokens": 64,
    "num_gpu_blocks_override": 160,
    "prefix_cache_retention_interval": None,
}
FAR = 32_000
# What a tiny bf16 model's log-probabilities differ by from float32 ones without any encoding of positions.
BF16_NOISE = 0.1


def cases() -> list[Case]:
    return [Case(5, 144, forced=30), Case(6, 60, forced=30), Case(7, 250, forced=10)]


@pytest.mark.parametrize("pattern", ENCODED)
def test_requests_of_one_batch_are_preempted_and_go_on(pattern: str, tmp_path: Path) -> None:
    folder = make_hybrid(pattern, tmp_path)
    oracle = Oracle(HybridReference(folder))
    with started(folder, **OPTIONS) as engine:
        asks = [case.plain() for case in cases()]
        answers = engine.run(*asks, preempt_before=(2, 5, 9, 15, 24))
        again = engine.run(*asks, preempt_before=(3, 7), keeping_blocks=True)
    expected = [oracle.plain(case) for case in cases()]
    assert [answer.logprobs for answer in answers] == expected
    assert [answer.logprobs for answer in again] == expected


@pytest.mark.parametrize("pattern", ENCODED)
def test_compiled_layers_compute_what_the_reference_does(pattern: str, tmp_path: Path) -> None:
    folder = make_hybrid(pattern, tmp_path)
    oracle = Oracle(HybridReference(folder))
    with started(folder, enforce_eager=False, **OPTIONS) as engine:
        answers = engine.run(*(case.plain() for case in cases()))
    assert [answer.logprobs for answer in answers] == [oracle.plain(case) for case in cases()]


@pytest.mark.parametrize("pattern", ENCODED)
def test_two_ranks_hold_the_weights_of_their_heads(
    pattern: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("VLLM_CPU_OMP_THREADS_BIND", "nobind")
    folder = make_hybrid(pattern, tmp_path)
    oracle, case = Oracle(HybridReference(folder)), Case(1, 150, forced=30)
    with started(folder, tensor_parallel_size=2, **OPTIONS) as engine:
        answer = engine.answer(case.plain())
    assert answer.logprobs == oracle.plain(case)


def test_qgpm_turns_the_planes_of_a_learned_basis(tmp_path: Path) -> None:
    """Layer 0 has its basis in its projections, layer 3 behind its norms."""
    folder = make_hybrid("learned bases", tmp_path)
    heads = ((0, 1), (3, 2))
    oracle, case = Oracle(HybridReference(folder), heads), Case(8, 200, forced=20, relevant=8)
    with started(folder, heads, **OPTIONS) as engine:
        score, answer = engine.answer(case.scored()), engine.answer(case.moved())
    assert oracle.hears(case, score)
    assert answer.logprobs == oracle.moved(case)


def test_a_basis_is_not_folded_into_quantised_projections(tmp_path: Path) -> None:
    layers = [{"rotary": "full", "window": None, "base": 1e6, "basis": "per_head"}] * 2
    folder = make_hybrid("learned bases", tmp_path, layers=layers, num_hidden_layers=2)
    oracle, case = Oracle(HybridReference(folder)), Case(1, 150, forced=20)
    with started(quantised(folder), **OPTIONS) as engine:
        answer = engine.answer(case.plain())
    # What int8 weights lose, measured without a basis; a basis folded into codes would give rubbish.
    assert answer.logprobs == oracle.plain(case, tolerance=0.5)


@pytest.mark.parametrize("pattern", ["alibi", "gated slopes", "forget gates"])
def test_bf16_keeps_distances_at_the_end_of_a_long_prompt(pattern: str, tmp_path: Path) -> None:
    layers = [layer for layer in PATTERNS[pattern]["layers"] if layer["window"] is None][:2]
    folder = make_hybrid(
        pattern,
        tmp_path,
        layers=layers,
        num_hidden_layers=2,
        dtype="bfloat16",
        max_position_embeddings=FAR + 64,
    )
    case = Case(1, FAR, forced=16)
    options = {"max_model_len": FAR + 64, "max_num_batched_tokens": 2048, "num_gpu_blocks_override": 2100}
    with started(folder, dtype="bfloat16", **options) as engine:
        first, hit = engine.answer(case.plain()), engine.answer(case.plain())
    assert hit.cached == FAR // 32 * 32 - 32
    expected = Oracle(HybridReference(folder)).plain(case, tolerance=BF16_NOISE)
    assert first.logprobs == expected
    assert hit.logprobs == expected


def test_phases_are_kept_beside_the_cache_and_counted(tmp_path: Path) -> None:
    folder = make_hybrid("forget gates", tmp_path)
    with started(folder, **OPTIONS) as engine:
        engine.answer(Ask([7] * 100, [5] * 4))
        cache, beside = engine.memory()["pools"]
    groups = {group["layers"][0]: group for group in beside["groups"]}
    assert sorted(groups) == [0, 1, 2]
    # Of two key heads.
    assert {group["bytes_per_token"] for group in groups.values()} == {2 * 8}
    assert beside["bytes_total"] == 3 * (160 * 32 + 2) * 2 * 8
    assert {group["bytes_per_token"] for group in cache["groups"]} == {2 * 2 * 64 * 4}
