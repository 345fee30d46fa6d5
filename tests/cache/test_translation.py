"""What other models' configurations become as one of our architecture."""

from typing import Any

import pytest
from transformers import AutoConfig, PreTrainedConfig

from cache.architecture_config import ArchitectureError
from cache.ropeway_config import architecture_of
from cache.translation import translated
from tests.support.sizes import SIZE

YARN: dict[str, Any] = {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 128}


def config(model_type: str, **fields: Any) -> PreTrainedConfig:
    return AutoConfig.for_model(model_type, **SIZE, **fields)


def test_the_flags_of_smollm3_are_1_where_a_layer_does_rotate() -> None:
    """smollm#130, transformers#43756: read inverted."""
    layers = translated(config("smollm3", no_rope_layers=[1, 0, 0, 1])).every_layer
    assert [layer.rotary for layer in layers] == ["full", "none", "none", "full"]
    assert [layer.base for layer in layers] == [2_000_000.0, None, None, 2_000_000.0]


def test_every_fourth_layer_of_smollm3_does_not_rotate_where_nothing_is_said() -> None:
    layers = translated(config("smollm3")).every_layer
    assert [layer.rotary for layer in layers] == ["full", "full", "full", "none"]


def test_windows_of_smollm3_are_read_from_types_alone() -> None:
    types = ["sliding_attention", "full_attention", "sliding_attention", "full_attention"]
    fields: dict[str, Any] = {"no_rope_layers": [1, 1, 0, 0], "layer_types": types, "sliding_window": 48}
    layers = translated(config("smollm3", use_sliding_window=True, **fields)).every_layer
    assert [(layer.rotary, layer.window) for layer in layers] == [
        *(("full", 48), ("full", None)),
        *(("none", 48), ("none", None)),
    ]


@pytest.mark.parametrize(
    ("model_type", "fields", "why"),
    [
        ("smollm3", {"sliding_window": 48, "use_sliding_window": False}, "use_sliding_window is false"),
        ("smollm3", {"sliding_window": None, "use_sliding_window": True}, "there is no sliding_window"),
        # Its configuration forgets a window that is not to be used.
        ("qwen2", {"sliding_window": 48, "use_sliding_window": False}, "there is no sliding_window"),
        ("qwen3", {"sliding_window": None, "use_sliding_window": True}, "there is no sliding_window"),
    ],
)
def test_a_type_that_has_a_window_contradicts_a_model_without(
    model_type: str, fields: dict[str, Any], why: str
) -> None:
    types = ["full_attention", "sliding_attention"] * 2
    with pytest.raises(ArchitectureError, match=rf"^layer_types\.1: is sliding_attention, and {why}$"):
        translated(config(model_type, layer_types=types, **fields))


def test_a_window_that_no_layer_has_is_left_out() -> None:
    types = ["full_attention"] * 4
    found = translated(config("smollm3", layer_types=types, sliding_window=48, use_sliding_window=False))
    assert [layer.window for layer in found.every_layer] == [None] * 4


def test_a_list_that_does_not_reach_the_last_layer_is_refused() -> None:
    with pytest.raises(ArchitectureError, match=r"^no_rope_layers: must hold 4"):
        translated(config("smollm3", no_rope_layers=[1, 0], layer_types=["full_attention"] * 4))


@pytest.mark.parametrize(
    ("model_type", "fields", "biases", "qk_norm"),
    [
        ("llama", {}, (False, False, False), False),
        ("llama", {"attention_bias": True, "mlp_bias": True}, (True, True, True), False),
        ("smollm3", {"attention_bias": True}, (True, True, False), False),
        ("mistral", {}, (False, False, False), False),
        ("qwen2", {}, (True, False, False), False),
        ("qwen3", {"head_dim": 32}, (False, False, False), True),
        ("qwen3", {"attention_bias": True}, (True, True, False), True),
    ],
)
def test_biases_and_norms_are_the_familys(
    model_type: str, fields: dict[str, Any], biases: tuple[bool, ...], qk_norm: bool
) -> None:
    found = translated(config(model_type, **fields))
    assert (found.attention_bias, found.output_bias, found.mlp_bias) == biases
    assert {layer.qk_norm for layer in found.every_layer} == {qk_norm}


def test_a_scaled_rule_keeps_its_numbers() -> None:
    found = translated(config("llama", rope_parameters={"rope_theta": 5e4, **YARN}))
    assert [(layer.base, layer.scaling) for layer in found.every_layer] == [(5e4, YARN)] * 4


def test_the_window_of_a_model_without_types_is_every_layers() -> None:
    layers = translated(config("mistral", sliding_window=32)).every_layer
    assert [layer.window for layer in layers] == [32] * 4


@pytest.mark.parametrize(
    ("found", "field"),
    [
        (config("granite"), "model_type"),
        (config("llama", hidden_act="gelu"), "hidden_act"),
        (
            config("llama", rope_parameters={"rope_theta": 1e4, "partial_rotary_factor": 0.5}),
            "rope_parameters.partial_rotary_factor",
        ),
    ],
)
def test_what_cannot_be_said_is_refused_by_name(found: PreTrainedConfig, field: str) -> None:
    with pytest.raises(ArchitectureError) as raised:
        translated(found)
    assert raised.value.field == field


def test_only_our_own_and_smollm3_are_served_by_the_architecture() -> None:
    smollm3 = config("smollm3")
    assert architecture_of(smollm3) == translated(smollm3)
    assert architecture_of(config("llama")) is None
