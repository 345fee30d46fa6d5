"""The plans of models as an engine loads them, and the models that it must refuse by name."""

import json
from pathlib import Path
from typing import Any

import pytest
from transformers import AutoConfig

from tests.support.checkpoints import make
from tests.support.engine import plans

SIZE: dict[str, Any] = {
    "vocab_size": 256,
    "hidden_size": 128,
    "intermediate_size": 128,
    "num_hidden_layers": 4,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "max_position_embeddings": 512,
    "bos_token_id": 0,
    "eos_token_id": 0,
    "pad_token_id": 0,
}
MLA: dict[str, Any] = {
    "kv_lora_rank": 64,
    "q_lora_rank": None,
    "qk_nope_head_dim": 32,
    "qk_rope_head_dim": 16,
    "v_head_dim": 32,
    "moe_intermediate_size": 64,
    "n_routed_experts": 4,
    "n_shared_experts": 1,
    "num_experts_per_tok": 2,
    "first_k_dense_replace": 4,
    "num_key_value_heads": 4,
}
PLAIN = {"rope_type": "default", "rope_theta": 10_000.0}
DYNAMIC = {"rope_type": "dynamic", "rope_theta": 10_000.0, "factor": 4.0}
HALF_WINDOWED = {"sliding_window": 64, "layer_types": ["full_attention", "sliding_attention"] * 2}
REFUSED: dict[str, tuple[str, str, dict[str, Any]]] = {
    # transformers#43756, smollm#130: what the flags say is not what the code does.
    "flags of no effect": ("llama", "LlamaForCausalLM", {"no_rope_layers": [1, 1, 1, 0]}),
    # vLLM rotates all layers of this architecture where none has a window, transformers none.
    "another reading": (
        "exaone4",
        "Exaone4ForCausalLM",
        {"sliding_window": 64, "layer_types": ["full_attention"] * 4},
    ),
    "windows of no effect": ("glm4", "Glm4ForCausalLM", {"head_dim": 32, **HALF_WINDOWED}),
    # What vLLM reads of a rule and transformers does not.
    "another base": ("llama", "LlamaForCausalLM", {"rope_parameters": {**DYNAMIC, "alpha": 1000.0}}),
    "another width": ("llama", "LlamaForCausalLM", {"rope_parameters": {**PLAIN, "rope_dim": 16}}),
    "positions in the embedding": ("gpt2", "GPT2LMHeadModel", {"n_positions": 512, "n_inner": 128}),
    "learned positions": ("opt", "OPTForCausalLM", {"ffn_dim": 128, "word_embed_proj_dim": 128}),
    "latent attention": ("deepseek_v2", "DeepseekV2ForCausalLM", MLA),
}  # fmt: skip
SCALED: dict[str, dict[str, Any]] = {
    "linear": {"factor": 2.0},
    "dynamic": {"factor": 4.0},
    "yarn": {"factor": 4.0, "original_max_position_embeddings": 128},
    "llama3": {
        "factor": 4.0,
        "low_freq_factor": 1.0,
        "high_freq_factor": 4.0,
        "original_max_position_embeddings": 128,
    },
    "longrope": {
        "short_factor": [1.0] * 16,
        "long_factor": [1.0 + plane for plane in range(16)],
        "original_max_position_embeddings": 128,
    },
}
NAMED = {
    "flags of no effect": "layer 3 rotates its keys, and its config says that it does not",
    "another reading": "layer 0 rotates its keys, and its config says that it does not",
    "windows of no effect": "layer 1 attends to all tokens, and its config says to 64 tokens",
    "another base": "layer 0 rotates by other angles than its config declares",
    "another width": "layer 0 rotates 16 dimensions, its config 32",
    "positions in the embedding": "gpt2 declares no RoPE rule",
    "learned positions": "opt declares no RoPE rule",
    "latent attention": "is MLAAttention, not decoder self-attention",
}
START: dict[str, Any] = {"skip_tokenizer_init": True, "max_model_len": 512, "logits_processors": None}


def configured(folder: Path, model_type: str, architecture: str, fields: dict[str, Any]) -> Path:
    AutoConfig.for_model(model_type, **{**SIZE, **fields}, architectures=[architecture]).save_pretrained(
        folder
    )
    return folder


@pytest.fixture(scope="module")
def refusals(tmp_path_factory: pytest.TempPathFactory) -> dict[str, dict[str, Any] | str]:
    folders = [configured(tmp_path_factory.mktemp("refused"), *refused) for refused in REFUSED.values()]
    return dict(zip(REFUSED, plans(folders, **START), strict=True))


@pytest.mark.parametrize("kind", REFUSED)
def test_what_is_not_covered_is_refused_by_name(kind: str, refusals: dict[str, Any]) -> None:
    assert isinstance(refusals[kind], str), "it started"
    assert "UnsupportedModelError" in refusals[kind]
    assert NAMED[kind] in refusals[kind]


@pytest.fixture(scope="module")
def accepted(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    folders = {}
    for architecture in ("qwen3", "granite", "phi3", "glm4"):
        folders[architecture] = make(architecture, tmp_path_factory.mktemp(architecture), max_positions=512)  # type: ignore[arg-type]
    for rule, numbers in SCALED.items():
        parameters = {"rope_type": rule, "rope_theta": 10_000.0, **numbers}
        folders[rule] = make(
            "llama", tmp_path_factory.mktemp(rule), max_positions=512, rope_parameters=parameters
        )
    folders["short"] = make(
        "llama",
        tmp_path_factory.mktemp("short"),
        max_positions=256,
        rope_parameters={"rope_type": "dynamic", "rope_theta": 10_000.0, "factor": 4.0},
    )
    late = make("gemma3", tmp_path_factory.mktemp("late"), layers=6, max_positions=512)
    config = json.loads((late / "config.json").read_text())
    config["layer_types"] = ["sliding_attention"] * 3 + ["full_attention"] * 3
    (late / "config.json").write_text(json.dumps(config))
    folders["late"] = late
    windowed = make("mistral", tmp_path_factory.mktemp("windowed"), max_positions=512)
    config = json.loads((windowed / "config.json").read_text())
    config["sliding_window"] = 64
    (windowed / "config.json").write_text(json.dumps(config))
    folders["windowed"] = windowed
    return dict(zip(folders, plans(list(folders.values()), **START), strict=True))


def maps(plan: Any) -> list[str]:
    assert not isinstance(plan, str), plan
    return [layer["map"] for layer in plan["layers"]]


@pytest.mark.parametrize("kind", ["qwen3", "granite", "phi3", "glm4", *SCALED])
def test_models_of_full_attention_are_split_in_half(kind: str, accepted: dict[str, Any]) -> None:
    assert maps(accepted[kind]) == ["broad", "broad", "sharp", "sharp"]


@pytest.mark.parametrize("rule", SCALED)
def test_a_scaled_profile_is_read_with_its_numbers(rule: str, accepted: dict[str, Any]) -> None:
    (profile,) = accepted[rule]["profiles"].values()
    assert profile["rope_type"] == rule
    assert {name: profile[name] for name in SCALED[rule]} == SCALED[rule]


def test_a_part_of_a_head_is_rotated(accepted: dict[str, Any]) -> None:
    assert [layer["rotary_dim"] for layer in accepted["glm4"]["layers"]] == [16] * 4
    (profile,) = accepted["glm4"]["profiles"].values()
    assert profile["pairing"] == "interleaved"


def test_a_table_shorter_than_the_longest_request_is_refused(accepted: dict[str, Any]) -> None:
    assert "has rotary rows for 256 positions: --max-model-len must not be 512" in accepted["short"]


def test_the_halves_count_all_layers(accepted: dict[str, Any]) -> None:
    assert maps(accepted["late"]) == ["standard"] * 3 + ["sharp"] * 3


def test_a_model_of_windowed_layers_only_has_nothing_to_modulate(accepted: dict[str, Any]) -> None:
    assert maps(accepted["windowed"]) == ["standard"] * 4
