"""Encodings beside RoPE and NoPE in real engines: with what vLLM adds to its layers, and in bf16 far out."""

from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file

from loadtests.encodings.served import BF16_TIMES
from tests.support.asks import Ask
from tests.support.bf16 import RoundedReference, in_one_number
from tests.support.cases import Case, Oracle
from tests.support.engine import EngineStartError, started
from tests.support.hybrid_reference import HybridReference
from tests.support.hybrids import ENCODED, PATTERNS, make_hybrid
from tests.support.int8 import QuantisedReference, quantised

pytestmark = pytest.mark.long

OPTIONS: dict[str, Any] = {
    "max_model_len": 1024,
    "max_num_batched_tokens": 64,
    "num_gpu_blocks_override": 160,
    "prefix_cache_retention_interval": None,
}
MIXED: list[dict[str, Any]] = [
    {
        **{"rotary": "full", "window": None, "base": 1e4, "pairing": "interleaved", "basis": "per_head"},
        **{"bias": {"kind": "forget"}, "qk_norm": True},
    },
    {
        **{"rotary": "partial", "rotary_fraction": 0.5, "window": 48, "spectrum": "per_head"},
        **{"basis": "tied", "bias": {"kind": "gated_slope", "gates": ["query", "key"], "frequency": 0.01}},
    },
    {"rotary": "plane", "window": None, "bias": {"kind": "alibi"}},
    {
        **{"rotary": "none", "window": None, "bias": {"kind": "forget"}},
        **{"query_scale": {"floor_scale": 32.0, "attn_scale": 0.3}},
    },
]
FAR = 32_000
FAR_OPTIONS: dict[str, Any] = {
    "max_model_len": FAR + 64,
    "max_num_batched_tokens": 2048,
    "num_gpu_blocks_override": 2100,
    "prefix_cache_retention_interval": None,
}
FAR_LAYERS: dict[str, dict[str, Any]] = {
    "NoPE": PATTERNS["all-NoPE"]["layers"][0],
    "RoPE": PATTERNS["all global"]["layers"][0],
    "part of RoPE": PATTERNS["partial"]["layers"][1],
    "YaRN": {
        **{"rotary": "full", "base": 10_000.0},
        "scaling": {"rope_type": "yarn", "factor": 8.0, "original_max_position_embeddings": 4096},
    },
    "a learned basis": PATTERNS["learned bases"]["layers"][0],
    "a learned spectrum": PATTERNS["learned spectra"]["layers"][1],
    "a learned plane": PATTERNS["learned planes"]["layers"][0],
    "ALiBi": PATTERNS["alibi"]["layers"][0],
    "slopes by keys": PATTERNS["gated slopes"]["layers"][0],
    "slopes by queries and keys": PATTERNS["gated slopes"]["layers"][2],
    "forget gates": PATTERNS["forget gates"]["layers"][0],
}


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


@pytest.mark.parametrize(("heads", "kv_heads"), [(6, 3), (4, 4), (5, 1)])
def test_rotations_and_biases_meet_in_layers_of_any_heads(heads: int, kv_heads: int, tmp_path: Path) -> None:
    shape = {"num_attention_heads": heads, "num_key_value_heads": kv_heads}
    folder = make_hybrid("all global", tmp_path, layers=MIXED, **shape)
    oracle, rows = Oracle(HybridReference(folder)), [case.plain() for case in cases()]
    with started(folder, **OPTIONS) as engine:
        answers = engine.run(*rows, preempt_before=(4, 11), keeping_blocks=True)
    assert [answer.logprobs for answer in answers] == [oracle.plain(case) for case in cases()]


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
    oracle, case = Oracle(QuantisedReference(quantised(folder))), Case(1, 150, forced=20)
    with started(folder, **OPTIONS) as engine:
        answer = engine.answer(case.plain())
    # float32's rounding may take an activation to the next of its 127 steps.
    assert answer.logprobs == oracle.plain(case, tolerance=0.02)


def sharpened(folder: Path) -> Path:
    """The checkpoint with larger queries: attention over all of a long prompt would else be an average."""
    weights = load_file(folder / "model.safetensors")
    sharp = {name: 2 * weight if ".q_proj." in name else weight for name, weight in weights.items()}
    save_file(sharp, folder / "model.safetensors", metadata={"format": "pt"})
    return folder


@pytest.mark.parametrize("name", FAR_LAYERS)
def test_bf16_keeps_positions_at_the_end_of_a_long_prompt(name: str, tmp_path: Path) -> None:
    """A windowed layer and a global one: in chunks, token by token, and from the cache."""
    layers = [FAR_LAYERS[name] | {"window": window} for window in (512, None)]
    length = {"max_position_embeddings": FAR + 64}
    folder = sharpened(
        make_hybrid("all global", tmp_path, layers=layers, num_hidden_layers=2, dtype="bfloat16", **length)
    )
    case = Case(1, FAR, forced=16)
    with started(folder, dtype="bfloat16", **FAR_OPTIONS) as engine:
        answers = [engine.answer(case.plain()) for _ in range(2)]
    assert [answer.cached for answer in answers] == [0, FAR - 32]
    expected, rounded, careless = (
        torch.tensor(reference.forced_logprobs(case.prompt, case.forced))
        for reference in (
            HybridReference(folder),
            RoundedReference(folder),
            HybridReference(folder, in_one_number),
        )
    )
    first, hit = ((torch.tensor(answer.logprobs) - expected).abs().max().item() for answer in answers)
    noise, lost = ((other - expected).abs().max().item() for other in (rounded, careless))
    print(f"{name}: off by {first:.3f}, from the cache {hit:.3f}; by rounding {noise:.3f}, lost {lost:.3f}")
    assert max(first, hit) <= BF16_TIMES * noise
    assert lost > 2 * BF16_TIMES * noise or name == "NoPE"


@pytest.mark.parametrize(
    ("pattern", "missing"),
    [
        ("learned spectra", "layers.0.self_attn.rotary_emb.angles"),
        ("learned planes", "layers.1.self_attn.rotary_emb.plane"),
        ("forget gates", "layers.2.self_attn.logit_bias.bias"),
    ],
)
def test_weights_that_a_checkpoint_lacks_or_calls_otherwise_stop_the_start(
    pattern: str, missing: str, tmp_path: Path
) -> None:
    folder = make_hybrid(pattern, tmp_path)
    weights = load_file(folder / "model.safetensors")
    lost = weights.pop(f"model.{missing}")
    save_file(weights, folder / "model.safetensors", metadata={"format": "pt"})
    with pytest.raises(EngineStartError, match=missing.replace(".", r"\.")), started(folder, **OPTIONS):
        raise AssertionError("it started")
    save_file(weights | {f"model.{missing}_": lost}, folder / "model.safetensors", metadata={"format": "pt"})
    with pytest.raises(EngineStartError, match=missing.replace(".", r"\.")), started(folder, **OPTIONS):
        raise AssertionError("it started")


def test_weights_of_another_number_of_heads_stop_the_start(tmp_path: Path) -> None:
    folder = make_hybrid("learned spectra", tmp_path)
    weights = load_file(folder / "model.safetensors")
    name = "model.layers.1.self_attn.rotary_emb.angles"
    save_file(weights | {name: weights[name][:1]}, folder / "model.safetensors", metadata={"format": "pt"})
    with (
        pytest.raises(EngineStartError, match=r"weights of 2 heads are of \[16\] each, not \[1, 16\]"),
        started(folder, **OPTIONS),
    ):
        raise AssertionError("it started")


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
