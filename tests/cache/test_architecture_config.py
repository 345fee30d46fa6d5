"""What a configuration of the architecture may say, and what its errors name."""

import json
import math
import pickle
from copy import deepcopy
from pathlib import Path
from typing import Any

import pytest
from transformers import AutoConfig, LlamaConfig

from cache.architecture_config import Architecture, ArchitectureError
from cache.ropeway_config import RopewayConfig
from positional.profile import Profile

LOCAL: dict[str, Any] = {"rotary": "full", "base": 10_000.0, "window": 64}
NOPE: dict[str, Any] = {"rotary": "none", "window": None}
PARTIAL: dict[str, Any] = {"rotary": "partial", "rotary_fraction": 0.25, "base": 5e5, "window": None}
YARN: dict[str, Any] = {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 128}
SHAPE: dict[str, Any] = {
    "vocab_size": 64,
    "hidden_size": 64,
    "intermediate_size": 96,
    "num_hidden_layers": 8,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "head_dim": 16,
    "max_position_embeddings": 512,
    "tie_word_embeddings": True,
}


def described(**fields: Any) -> dict[str, Any]:
    return {**SHAPE, "layer_pattern": [LOCAL, LOCAL, LOCAL, NOPE], **fields}


def with_layer(**fields: Any) -> dict[str, Any]:
    return described(layer_pattern=[{**LOCAL, **fields}])


def loaded(folder: Path, values: dict[str, Any]) -> Any:
    (folder / "config.json").write_text(json.dumps({"model_type": "ropeway", **values}))
    return AutoConfig.from_pretrained(folder)


def test_a_pattern_repeats_and_may_be_cut_by_the_end() -> None:
    architecture = Architecture.read(described(num_hidden_layers=6))
    assert [layer.rotary for layer in architecture.every_layer] == ["full"] * 3 + ["none"] + ["full"] * 2
    assert [layer.window for layer in architecture.every_layer] == [64, 64, 64, None, 64, 64]


def test_layers_may_be_given_one_by_one() -> None:
    values = SHAPE | {"layers": [LOCAL, NOPE, PARTIAL, NOPE] * 2}
    assert [layer.rotary for layer in Architecture.read(values).every_layer] == [
        *("full", "none", "partial", "none"),
        *("full", "none", "partial", "none"),
    ]


@pytest.mark.parametrize(
    ("values", "field"),
    [
        (described(windows=4096), "windows"),
        (described(hidden_act="gelu"), "hidden_act"),
        (described(tie_word_embeddings="no"), "tie_word_embeddings"),
        (described(rms_norm_eps=math.nan), "rms_norm_eps"),
        (described(num_key_value_heads=3), "num_key_value_heads"),
        (described(num_hidden_layers=3), "layer_pattern"),
        (described(layers=[LOCAL] * 8), "layers"),
        (SHAPE, "layers"),
        (SHAPE | {"layers": [LOCAL] * 7}, "layers"),
        (with_layer(rotary="half"), "layer_pattern.0.rotary"),
        (with_layer(rotary="plane"), "layer_pattern.0.base"),
        (with_layer(spectrum="tied"), "layer_pattern.0.base"),
        (with_layer(basis="learned"), "layer_pattern.0.basis"),
        (described(layer_pattern=[NOPE | {"basis": "tied"}]), "layer_pattern.0.basis"),
        (with_layer(bias={"kind": "path_integral"}), "layer_pattern.0.bias.kind"),
        (with_layer(bias={"kind": "alibi", "slopes": [0.5]}), "layer_pattern.0.bias.slopes"),
        (
            with_layer(bias={"kind": "alibi", "slopes": [0.5, 0.1, 0.1, -0.1]}),
            "layer_pattern.0.bias.slopes.3",
        ),
        (with_layer(bias={"kind": "forget", "slopes": [0.5] * 4}), "layer_pattern.0.bias.slopes"),
        (with_layer(bias={"kind": "gated_slope"}), "layer_pattern.0.bias.gates"),
        (with_layer(bias={"kind": "gated_slope", "gates": ["key", "key"]}), "layer_pattern.0.bias.gates"),
        (with_layer(bias={"kind": "alibi", "gates": ["key"]}), "layer_pattern.0.bias.gates"),
        (with_layer(bias={"kind": "bloom"}), "layer_pattern.0.bias.kind"),
        (with_layer(rope="full"), "layer_pattern.0.rope"),
        (with_layer(window=0), "layer_pattern.0.window"),
        (with_layer(window=True), "layer_pattern.0.window"),
        (with_layer(base=None), "layer_pattern.0.base"),
        (with_layer(base=1), "layer_pattern.0.base"),
        (with_layer(pairing="split"), "layer_pattern.0.pairing"),
        (with_layer(rotary_fraction=0.5), "layer_pattern.0.rotary_fraction"),
        (with_layer(rotary="partial"), "layer_pattern.0.rotary_fraction"),
        (with_layer(rotary="partial", rotary_fraction=0.2), "layer_pattern.0.rotary_fraction"),
        (with_layer(rotary="partial", rotary_fraction=3 / 16), "layer_pattern.0.rotary_fraction"),
        (with_layer(rotary="none"), "layer_pattern.0.base"),
        (with_layer(query_scale={"floor_scale": 8, "attn_scale": 0.1}), "layer_pattern.0.query_scale"),
        (with_layer(scaling={"rope_type": "ntk"}), "layer_pattern.0.scaling.rope_type"),
        (with_layer(scaling=YARN | {"factor": 0.5}), "layer_pattern.0.scaling.factor"),
        (with_layer(scaling=YARN | {"beta": 2}), "layer_pattern.0.scaling.beta"),
        (
            with_layer(scaling={"rope_type": "yarn", "factor": 4}),
            "layer_pattern.0.scaling.original_max_position_embeddings",
        ),
        (described(layer_pattern=[NOPE | {"pairing": "half"}]), "layer_pattern.0.pairing"),
        (described(layer_pattern=[{"rotary": "none"}]), "layer_pattern.0.window"),
        (described(layer_pattern=[{"window": None}]), "layer_pattern.0.rotary"),
    ],
)
def test_an_error_names_the_field(values: dict[str, Any], field: str, tmp_path: Path) -> None:
    with pytest.raises(ArchitectureError) as raised:
        Architecture.read(values)
    assert raised.value.field == field
    assert str(raised.value).startswith(f"{field}: ")
    with pytest.raises(ArchitectureError):
        loaded(tmp_path, values)


@pytest.mark.parametrize("layer", [LOCAL, PARTIAL, LOCAL | {"scaling": YARN, "pairing": "interleaved"}])
def test_a_layers_profile_is_that_of_transformers(layer: dict[str, Any]) -> None:
    architecture = Architecture.read(described(layer_pattern=[layer]))
    rule = {"rope_theta": layer["base"], **layer.get("scaling", {"rope_type": "default"})}
    if "rotary_fraction" in layer:
        rule["partial_rotary_factor"] = layer["rotary_fraction"]
    expected = Profile.from_config(
        LlamaConfig(head_dim=16, max_position_embeddings=512, rope_parameters=rule),
        pairing=layer.get("pairing", "half"),
    )
    assert architecture.profile(0) == expected


def test_a_layer_without_rotation_has_no_profile() -> None:
    assert Architecture.read(described()).profile(3) is None


def test_a_configuration_survives_what_is_done_to_configurations(tmp_path: Path) -> None:
    config = loaded(tmp_path, described(eos_token_id=2, dtype="bfloat16"))
    config.save_pretrained(tmp_path / "again")
    copies = [deepcopy(config), pickle.loads(pickle.dumps(config))]
    copies.append(AutoConfig.from_pretrained(tmp_path / "again"))
    assert [copy.architecture for copy in copies] == [config.architecture] * 3
    assert [copy.eos_token_id for copy in copies] == [2] * 3


def test_layer_types_say_who_has_a_window_and_nothing_else(tmp_path: Path) -> None:
    layers = [LOCAL, NOPE, PARTIAL, NOPE | {"window": 32}] * 2
    config = loaded(tmp_path, SHAPE | {"layers": layers})
    full, sliding = "full_attention", "sliding_attention"
    assert config.layer_types == [sliding, full, full, sliding] * 2


def test_rules_are_told_by_layer_type_where_its_rotated_layers_share_one(tmp_path: Path) -> None:
    layers = [LOCAL, NOPE, PARTIAL, LOCAL | {"base": 20_000.0}] * 2
    config = loaded(tmp_path, SHAPE | {"layers": layers})
    partial = {"rope_theta": 5e5, "rope_type": "default", "partial_rotary_factor": 0.25}
    assert config.rope_parameters == {"full_attention": partial}
    assert loaded(tmp_path, SHAPE | {"layers": [NOPE] * 8}).rope_parameters is None


def test_another_rule_never_makes_a_layer_rotate_or_stop(tmp_path: Path) -> None:
    config = loaded(tmp_path, SHAPE | {"layers": [LOCAL, NOPE, PARTIAL, NOPE] * 2})
    config.update({"rope_parameters": {"full_attention": {"rope_theta": 1e6, **YARN}}})
    assert (
        config.architecture.every_layer[:4]
        == Architecture.read(
            SHAPE | {"layers": [LOCAL, NOPE, PARTIAL | {"base": 1e6, "scaling": YARN}, NOPE] * 2}
        ).every_layer[:4]
    )
    config.update({"rope_parameters": {"rope_theta": 3e4, "rope_type": "default"}})
    assert [layer.base for layer in config.architecture.every_layer[:4]] == [3e4, None, 3e4, None]
    assert config.architecture.every_layer[2].rotary_fraction == 0.25
    config.update({"rope_parameters": None})
    assert [layer.rotary for layer in config.architecture.every_layer[:2]] == ["full", "none"]


def test_an_override_of_an_unknown_name_is_refused() -> None:
    with pytest.raises(ArchitectureError, match=r"^layer_patern: is unknown"):
        RopewayConfig(**described()).update({"layer_patern": [NOPE]})


def test_an_overridden_field_is_checked_when_it_is_read() -> None:
    config = RopewayConfig(**described())
    config.update({"layer_pattern": [NOPE | {"base": 1e4}]})
    with pytest.raises(ArchitectureError, match=r"^layer_pattern\.0\.base: "):
        _ = config.architecture


def test_a_bias_that_no_cache_can_hold_is_refused_with_the_reason() -> None:
    layers = [LOCAL, NOPE | {"bias": {"kind": "path_integral"}}]
    with pytest.raises(ArchitectureError) as caught:
        Architecture.read(described(layer_pattern=layers))
    assert str(caught.value).startswith("layer_pattern.1.bias.kind: cannot be served: each query weighs")


def test_an_override_of_the_rule_leaves_learned_frequencies_alone() -> None:
    learned = {"rotary": "full", "spectrum": "tied", "window": None}
    config = RopewayConfig(**described(layer_pattern=[LOCAL, learned, {"rotary": "plane", "window": None}]))
    config.rope_parameters = {"rope_type": "default", "rope_theta": 5e5}
    assert [layer.base for layer in config.architecture.every_layer][:3] == [5e5, None, None]
