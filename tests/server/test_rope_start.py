"""A start under the RoPE flags: what vLLM is told, read back from its configuration and rotary modules."""

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from transformers import Gemma3TextConfig, LlamaConfig, Phi3Config
from vllm.config import ModelConfig, VllmConfig, set_current_vllm_config
from vllm.engine.arg_utils import AsyncEngineArgs
from vllm.model_executor.layers import rotary_embedding

from cache.registration import register_architectures
from cache.ropeway_config import RopewayConfig
from cache.rotary import stock_table
from cache.unsupported import UnsupportedModelError
from positional.phases import rotation_rows
from positional.profile import Profile, ProfileError
from server.flags import FlagError
from server.rope_choice import AutoRule
from server.rope_start import RopeStart, as_loaded, start_rope

register_architectures()

NATIVE = 2048
SIZES = {
    "hidden_size": 128,
    "intermediate_size": 256,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "num_hidden_layers": 2,
    "vocab_size": 512,
}
ORIGINAL = {"original_max_position_embeddings": NATIVE}
PHI3 = {"rope_type": "longrope", "short_factor": [1.1] * 16, "long_factor": [float(m + 2) for m in range(16)]}
YARN = {"rope_type": "yarn", "factor": 4.0}


def plain() -> LlamaConfig:
    return llama({"rope_type": "default"}, NATIVE)


def llama(rope: dict[str, Any], positions: int) -> LlamaConfig:
    return LlamaConfig(
        **SIZES,
        head_dim=32,
        max_position_embeddings=positions,
        rope_parameters={"rope_theta": 1e4, **rope},
        architectures=["LlamaForCausalLM"],
    )


def phi3() -> Phi3Config:
    return Phi3Config(
        **SIZES,
        pad_token_id=0,
        max_position_embeddings=4 * NATIVE,
        original_max_position_embeddings=NATIVE,
        rope_parameters={"rope_theta": 1e4, **PHI3},
        architectures=["Phi3ForCausalLM"],
    )


def gemma3() -> Gemma3TextConfig:
    return Gemma3TextConfig(
        **SIZES,
        head_dim=32,
        max_position_embeddings=4 * NATIVE,
        layer_types=["sliding_attention", "full_attention"],
        rope_parameters={
            "sliding_attention": {"rope_type": "default", "rope_theta": 1e4},
            "full_attention": {"rope_type": "linear", "rope_theta": 1e6, "factor": 4.0},
        },
        architectures=["Gemma3ForCausalLM"],
    )


# name: configuration, its own window
MODELS: dict[str, tuple[Any, int]] = {
    "default": (plain(), NATIVE),
    "linear": (llama({"rope_type": "linear", "factor": 4.0}, NATIVE), 4 * NATIVE),
    "dynamic": (llama({"rope_type": "dynamic", "factor": 4.0}, NATIVE), 4 * NATIVE),
    "yarn": (llama(YARN | ORIGINAL, 4 * NATIVE), 4 * NATIVE),
    "yarn of native positions": (llama(YARN, NATIVE), 4 * NATIVE),
    "llama3": (
        llama(
            {
                "rope_type": "llama3",
                "factor": 4.0,
                "low_freq_factor": 1.0,
                "high_freq_factor": 4.0,
                **ORIGINAL,
            },
            4 * NATIVE,
        ),
        4 * NATIVE,
    ),
    "longrope": (phi3(), 4 * NATIVE),
    "gemma3": (gemma3(), 4 * NATIVE),
}
MODEL = pytest.mark.parametrize("name", list(MODELS))
SCALED = pytest.mark.parametrize("name", [name for name in MODELS if name != "default"])


def start(
    folder: Path,
    config: Any,
    *,
    auto: bool = False,
    scaling: dict[str, Any] | None = None,
    length: int | None = None,
    overrides: dict[str, Any] | None = None,
) -> RopeStart:
    config.save_pretrained(folder)
    args = AsyncEngineArgs(model=str(folder), max_model_len=length, hf_overrides=overrides or {})
    return start_rope(args, auto, scaling)


def told(folder: Path, started: RopeStart) -> ModelConfig:
    """vLLM's own reading of what it is told; raises where it does not take the length."""
    return ModelConfig(
        model=str(folder),
        skip_tokenizer_init=True,
        dtype="float32",
        hf_overrides=started.hf_overrides,
        max_model_len=started.max_model_len,
    )


def table(model: ModelConfig, layer_type: str | None = None) -> torch.Tensor:
    """The table of the rotary module that a layer of that configuration gets."""
    config = model.hf_text_config
    rope = config.rope_parameters
    # One process may not hold longrope's modules of two lengths.
    rotary_embedding._ROPE_DICT.clear()
    with set_current_vllm_config(VllmConfig(model_config=model)):
        rotary = rotary_embedding.get_rope(
            32,
            max_position=config.max_position_embeddings,
            rope_parameters=rope if layer_type is None else rope[layer_type],
            dtype=torch.float32,
        )
    return stock_table(rotary)


def rotates_by(found: torch.Tensor, profile: Profile) -> bool:
    rows = [0, 1, 2, 61]
    positions = torch.tensor(rows, dtype=torch.float64)[:, None].expand(-1, profile.planes)
    return torch.allclose(found[rows], rotation_rows(positions, profile, torch.float32), rtol=0, atol=2e-5)


def main_table(name: str, model: ModelConfig) -> torch.Tensor:
    return table(model, "full_attention" if name == "gemma3" else None)


@MODEL
def test_without_flags_vllm_loads_what_the_rules_say_it_loads(name: str, tmp_path: Path) -> None:
    started = start(tmp_path, MODELS[name][0])
    model = told(tmp_path, started)
    found = main_table(name, model)
    assert rotates_by(found, started.served.loaded_profile)
    assert len(found) >= model.max_model_len


@SCALED
def test_a_length_that_the_models_own_scaling_covers_is_taken(name: str, tmp_path: Path) -> None:
    config, window = MODELS[name]
    started = start(tmp_path, config, length=window)
    model = told(tmp_path, started)
    found = main_table(name, model)
    assert model.max_model_len == window
    assert rotates_by(found, started.served.loaded_profile)
    assert len(found) >= window


@SCALED
def test_under_auto_vllm_loads_the_unscaled_rule_for_the_whole_window(name: str, tmp_path: Path) -> None:
    config, window = MODELS[name]
    started = start(tmp_path, config, auto=True)
    model = told(tmp_path, started)
    found = main_table(name, model)
    served = started.served
    assert served.loaded == served.model.native
    assert served.default == AutoRule(served.model.native, served.model.own)
    assert (served.model.window, model.max_model_len) == (NATIVE, window)
    assert rotates_by(found, served.model.native.profile(NATIVE))
    assert len(found) >= window


@MODEL
def test_under_auto_a_declared_rule_extends_any_model(name: str, tmp_path: Path) -> None:
    started = start(tmp_path, MODELS[name][0], auto=True, scaling={"rope_type": "yarn", "factor": 8.0})
    model = told(tmp_path, started)
    found = main_table(name, model)
    assert model.max_model_len == 8 * NATIVE
    assert started.served.declared == started.served.model.rule(scaling={"rope_type": "yarn", "factor": 8.0})
    assert rotates_by(found, started.served.model.native.profile(NATIVE))
    assert len(found) >= 8 * NATIVE


def test_under_auto_the_other_layer_types_keep_their_rule(tmp_path: Path) -> None:
    model = told(tmp_path, start(tmp_path, gemma3(), auto=True))
    found = table(model, "sliding_attention")
    assert rotates_by(found, Profile.rope(1e4, 32))
    assert len(found) >= model.max_model_len


def test_a_declared_rule_alone_leaves_the_model_as_it_is(tmp_path: Path) -> None:
    started = start(tmp_path, plain(), scaling=YARN)
    assert started.served.default == started.served.loaded == started.served.model.own
    assert started.hf_overrides == {"max_position_embeddings": 4 * NATIVE}
    assert told(tmp_path, started).max_model_len == 4 * NATIVE


def test_a_declared_rule_may_bring_its_base(tmp_path: Path) -> None:
    served = start(tmp_path, plain(), scaling={**YARN, "rope_theta": 5e5}).served
    assert served.declared == served.model.rule(5e5, YARN)


def test_a_shorter_length_is_the_users(tmp_path: Path) -> None:
    started = start(tmp_path, plain(), auto=True, scaling=YARN, length=3000)
    assert (started.max_model_len, told(tmp_path, started).max_model_len) == (3000, 3000)


def test_as_long_as_the_memory_allows_passes_through(tmp_path: Path) -> None:
    started = start(tmp_path, plain(), auto=True, scaling=YARN, length=-1)
    assert started.max_model_len == -1
    assert told(tmp_path, started).max_model_len == 4 * NATIVE


def test_without_flags_nothing_is_changed(tmp_path: Path) -> None:
    started = start(tmp_path, plain(), overrides={"rms_norm_eps": 1e-5})
    assert (started.hf_overrides, started.max_model_len) == ({"rms_norm_eps": 1e-5}, None)


def test_a_default_longrope_request_rotates_as_stock_does_whatever_its_length(tmp_path: Path) -> None:
    served = start(tmp_path, phi3(), length=4 * NATIVE).served
    assert served.default == served.loaded
    assert served.loaded.profile(10).digest == served.model.own.profile(4 * NATIVE).digest


def test_a_default_dynamic_request_scales_beyond_the_native_window(tmp_path: Path) -> None:
    served = start(tmp_path, MODELS["dynamic"][0]).served
    assert served.default == served.model.own
    assert served.loaded == served.model.native


# --- the user's own overrides ---


def test_the_users_overrides_are_kept_beside_ours(tmp_path: Path) -> None:
    started = start(tmp_path, plain(), auto=True, scaling=YARN, overrides={"rms_norm_eps": 1e-5})
    assert started.hf_overrides == {"rms_norm_eps": 1e-5, "max_position_embeddings": 4 * NATIVE}


@pytest.mark.parametrize("spelling", ["rope_parameters", "rope_scaling"])
def test_the_users_rope_parameters_count_as_the_models_own(spelling: str, tmp_path: Path) -> None:
    rope = {"rope_theta": 2e4, **YARN, **ORIGINAL}
    started = start(tmp_path, plain(), auto=True, overrides={spelling: rope})
    served = started.served
    assert (served.model.own.base, served.model.own.rope_type) == (2e4, "yarn")
    assert (served.model.window, served.model.own.window) == (NATIVE, 4 * NATIVE)
    assert rotates_by(table(told(tmp_path, started)), Profile.rope(2e4, 32))


def test_the_users_positions_count_as_the_models_own(tmp_path: Path) -> None:
    started = start(tmp_path, plain(), overrides={"max_position_embeddings": 4096})
    assert started.served.model.window == 4096


def test_half_a_rule_in_the_users_overrides_is_refused(tmp_path: Path) -> None:
    with pytest.raises(FlagError, match="whole rule") as refused:
        start(tmp_path, plain(), overrides={"rope_parameters": YARN | ORIGINAL})
    assert refused.value.flag == "--hf-overrides"


def test_a_base_beside_the_rule_would_be_ignored_and_is_refused(tmp_path: Path) -> None:
    with pytest.raises(FlagError, match="rope_theta") as refused:
        start(tmp_path, plain(), overrides={"rope_theta": 5e5})
    assert refused.value.flag == "--hf-overrides"


# --- what cannot be started ---


def test_auto_without_a_declared_rule_is_refused(tmp_path: Path) -> None:
    with pytest.raises(FlagError, match="--rope-scaling") as refused:
        start(tmp_path, plain(), auto=True)
    assert refused.value.flag == "--rope-policy"


@pytest.mark.parametrize(
    ("config", "scaling", "limit"),
    [(plain(), None, NATIVE), (plain(), YARN, 4 * NATIVE), (phi3(), None, 4 * NATIVE)],
)
def test_a_length_beyond_every_rule_is_refused_with_both(
    config: Any, scaling: dict[str, Any] | None, limit: int, tmp_path: Path
) -> None:
    with pytest.raises(FlagError) as refused:
        start(tmp_path, config, scaling=scaling, length=limit + 1)
    assert refused.value.flag == "--max-model-len"
    assert str(limit + 1) in str(refused.value)
    assert f"the {limit} that" in str(refused.value)


@pytest.mark.parametrize("name", ["yarn", "longrope"])
def test_a_table_that_cannot_grow_is_refused_without_auto(name: str, tmp_path: Path) -> None:
    scaling = {"rope_type": "yarn", "factor": 8.0}
    with pytest.raises(FlagError, match="--rope-policy auto") as refused:
        start(tmp_path, MODELS[name][0], scaling=scaling, length=8 * NATIVE)
    assert refused.value.flag == "--max-model-len"
    assert str(4 * NATIVE) in str(refused.value)


@pytest.mark.parametrize(
    ("scaling", "said"),
    [
        ({"rope_type": "yarn"}, "factor is missing"),
        ({"rope_type": "su", "factor": 2}, "rope_type must be one of"),
        ({**YARN, "factr": 2}, "factr is unknown"),
        ({**YARN, "rope_theta": 0}, "rope_theta must be a finite number above 1"),
        ({"rope_type": "default"}, f"no more than the model's own window of {NATIVE}"),
    ],
)
def test_a_bad_declaration_is_refused_by_name(scaling: dict[str, Any], said: str, tmp_path: Path) -> None:
    with pytest.raises(FlagError) as refused:
        start(tmp_path, plain(), scaling=scaling)
    assert refused.value.flag == "--rope-scaling"
    assert said in str(refused.value)


def test_a_model_of_an_unknown_rule_is_refused(tmp_path: Path) -> None:
    start(tmp_path, plain())
    content = json.loads((tmp_path / "config.json").read_text())
    content["rope_parameters"]["rope_type"] = "proportional"
    (tmp_path / "config.json").write_text(json.dumps(content))
    with pytest.raises(ProfileError, match="rope_type"):
        start_rope(AsyncEngineArgs(model=str(tmp_path)), False, None)


# --- after the load ---


def plan_of(profile: Profile) -> dict[str, Any]:
    return {"profile": "main", "profiles": {"main": profile.describe()}}


def test_the_loaded_model_says_its_pairing(tmp_path: Path) -> None:
    served = start(tmp_path, plain(), auto=True, scaling=YARN).served
    loaded = as_loaded(served, plan_of(Profile.rope(1e4, 32, "interleaved")))
    assert loaded == served.paired("interleaved")


def test_a_model_without_a_main_profile_has_no_rule_to_replace(tmp_path: Path) -> None:
    served = start(tmp_path, plain()).served
    assert as_loaded(served, {"profile": None, "profiles": {}}) is None


@pytest.mark.parametrize("profile", [Profile.rope(1.001e4, 32)])
def test_a_model_that_was_loaded_with_another_rule_is_refused(profile: Profile, tmp_path: Path) -> None:
    served = start(tmp_path, plain()).served
    with pytest.raises(UnsupportedModelError, match="another RoPE rule"):
        as_loaded(served, plan_of(profile))


def ropeway(*layers: dict[str, Any]) -> RopewayConfig:
    return RopewayConfig(
        **SIZES,
        head_dim=32,
        max_position_embeddings=4 * NATIVE,
        tie_word_embeddings=True,
        layers=list(layers),
        architectures=["RopewayForCausalLM"],
    )


LOCAL = {"rotary": "full", "base": 1e4, "window": 64}
NOPE = {"rotary": "none", "window": None}


def test_a_model_without_rotation_has_no_rules(tmp_path: Path) -> None:
    started = start(tmp_path, ropeway(NOPE, NOPE), length=512)
    assert started == RopeStart(None, {}, 512)
    assert as_loaded(started.served, {"profile": None}) is None


@pytest.mark.parametrize("flags", [{"auto": True}, {"scaling": YARN | ORIGINAL}])
def test_flags_for_rules_do_not_fit_a_model_without_any(flags: dict[str, Any], tmp_path: Path) -> None:
    with pytest.raises(FlagError, match="the model has no RoPE rule"):
        start(tmp_path, ropeway(NOPE, NOPE), **flags)


def test_under_auto_only_the_global_layers_of_an_architecture_of_ours_are_unscaled(tmp_path: Path) -> None:
    scaled = {"rotary": "full", "base": 1e6, "window": None, "scaling": YARN | ORIGINAL}
    started = start(tmp_path, ropeway(LOCAL, scaled), auto=True)
    assert started.max_model_len == 4 * NATIVE
    found = told(tmp_path, started)
    layers = found.hf_text_config.architecture.every_layer
    assert [(layer.base, layer.scaling) for layer in layers] == [(1e4, None), (1e6, None)]
    assert started.served.loaded.window == NATIVE
    assert rotates_by(table(found, "full_attention"), started.served.loaded_profile)
