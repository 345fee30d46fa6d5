"""The oracle of Ropeway's own architecture: transformers' models of the same weights, where it has them."""

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file
from transformers import AutoConfig, AutoModelForCausalLM

from tests.support.cases import Case
from tests.support.hybrid_reference import HybridReference
from tests.support.hybrids import WINDOW, make_hybrid
from tests.support.reference import Reference

ROPE = {"rope_type": "default", "rope_theta": 10_000.0}
GLOBAL: dict[str, Any] = {"rotary": "full", "window": None, "base": 10_000.0}
LOCAL, NOPE = GLOBAL | {"window": WINDOW}, {"rotary": "none", "window": None}
BIASES = {"attention_bias": True, "output_bias": True, "mlp_bias": True}

TWINS: dict[str, tuple[str, list[dict[str, Any]], dict[str, Any], dict[str, Any]]] = {
    "a Llama": ("llama", [GLOBAL] * 2, {}, {}),
    "a Llama with biases": ("llama", [GLOBAL] * 2, BIASES, {"attention_bias": True, "mlp_bias": True}),
    "a Llama of one embedding": ("llama", [GLOBAL] * 2, {"tie_word_embeddings": True}, {}),
    "a Mistral whose layers are windowed": ("mistral", [LOCAL] * 2, {}, {"sliding_window": WINDOW}),
    "a Qwen 3, which norms queries and keys": ("qwen3", [GLOBAL | {"qk_norm": True}] * 2, {}, {}),
    "a SmolLM3, of which some layers do not rotate": (
        "smollm3",
        [GLOBAL, GLOBAL, GLOBAL, NOPE],
        {},
        {"no_rope_layers": [1, 1, 1, 0]},
    ),
}


def saved_as(model_type: str, folder: Path, fields: dict[str, Any]) -> Path:
    """The same weights as a checkpoint of transformers' own."""
    ours = json.loads((folder / "config.json").read_text())
    names = ("vocab_size", "hidden_size", "intermediate_size", "num_hidden_layers", "num_attention_heads")
    more = ("num_key_value_heads", "head_dim", "max_position_embeddings", "tie_word_embeddings")
    kept = {name: ours[name] for name in (*names, *more)}
    ids = {"bos_token_id": None, "eos_token_id": None, "pad_token_id": None, "rms_norm_eps": 1e-6}
    config = AutoConfig.for_model(model_type, **kept, **ids, rope_parameters=ROPE, **fields)
    model = AutoModelForCausalLM.from_config(config, dtype=torch.float32)
    weights = load_file(folder / "model.safetensors")
    missing, unexpected = model.load_state_dict(weights, strict=False)
    assert set(missing) <= {"lm_head.weight"}
    assert unexpected == []
    model.tie_weights()
    model.save_pretrained(folder / model_type)
    return folder / model_type


@pytest.mark.parametrize("twin", TWINS)
def test_it_computes_what_transformers_does(twin: str, tmp_path: Path) -> None:
    model_type, layers, ours, theirs = TWINS[twin]
    folder = make_hybrid("all global", tmp_path, layers=layers, num_hidden_layers=len(layers), **ours)
    oracle = Reference(saved_as(model_type, folder, theirs))
    case = Case(1, 150, forced=30)
    found = HybridReference(folder).forced_logprobs(case.prompt, case.forced)
    assert found == pytest.approx(oracle.forced_logprobs(case.prompt, case.forced), abs=2e-4)


def test_its_modulated_layers_are_those_of_the_other_oracle(tmp_path: Path) -> None:
    folder = make_hybrid("all global", tmp_path, layers=[GLOBAL] * 4)
    oracle = Reference(saved_as("llama", folder, {}))
    case = Case(2, 150, forced=30)
    ours, plain = (
        HybridReference(folder).forced_logprobs(case.prompt, case.forced, modulated)
        for modulated in (case.modulated, None)
    )
    assert ours == pytest.approx(oracle.forced_logprobs(case.prompt, case.forced, case.modulated), abs=2e-4)
    assert max(abs(a - b) for a, b in zip(ours, plain, strict=True)) > 0.1


def test_its_heads_hear_what_those_of_the_other_oracle_do(tmp_path: Path) -> None:
    folder = make_hybrid("all global", tmp_path, layers=[GLOBAL] * 4)
    oracle = Reference(saved_as("llama", folder, {}))
    case, heads = Case(5, 120), ((3, 1), (1, 0), (1, 3))
    rows = case.task.query_rows.tolist()
    ours, theirs = (
        torch.tensor(reference.relevance(case.prompt, heads, rows, case.spans)[0])
        for reference in (HybridReference(folder), oracle)
    )
    assert torch.allclose(ours, theirs, atol=1e-3)
    assert ours.std() > 0.1


@pytest.mark.parametrize("pattern", ["1:1", "5:1", "partial", "local only"])
@pytest.mark.parametrize("shift", [1, 100, 8192])
def test_where_a_sequence_stands_changes_nothing(pattern: str, shift: int, tmp_path: Path) -> None:
    reference, prompt = HybridReference(make_hybrid(pattern, tmp_path)), Case(3, 120).prompt
    assert torch.allclose(reference.logits(prompt, shift=shift), reference.logits(prompt), atol=2e-4)


@pytest.mark.parametrize("pattern", ["3:1", "all-NoPE"])
def test_a_query_scale_tells_where_a_sequence_stands(pattern: str, tmp_path: Path) -> None:
    """vllm#16417: layers without rotation whose query scale still depends on the position."""
    reference, prompt = HybridReference(make_hybrid(pattern, tmp_path)), Case(3, 120).prompt
    difference = reference.logits(prompt, shift=8192) - reference.logits(prompt)
    assert difference.abs().max() > 0.1


def test_two_windowed_layers_see_as_far_as_two_windows(tmp_path: Path) -> None:
    reference = HybridReference(make_hybrid("local only", tmp_path))
    prompt = Case(4, 150).prompt
    furthest = 149 - 2 * (WINDOW - 1)
    last = reference.logits(prompt)[-1]
    for token, seen in ((furthest - 1, False), (furthest, True)):
        changed = list(prompt)
        changed[token] = 7 if changed[token] != 7 else 8
        assert torch.equal(reference.logits(changed)[-1], last) != seen
