"""What configurations say of layers; no property is inferred from another one."""

import math
from types import SimpleNamespace
from typing import Any

import pytest
from transformers import AutoConfig

from cache.declaration import Declaration, QueryScale, check_windows, declarations
from cache.ropeway_config import RopewayConfig
from cache.unsupported import UnsupportedModelError
from tests.support.hybrids import PATTERNS

SIZE = {
    "num_hidden_layers": 4,
    "hidden_size": 128,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "head_dim": 32,
    "max_position_embeddings": 512,
}
MIXED = ["sliding_attention", "sliding_attention", "sliding_attention", "full_attention"]


def whole(config: Any, length: int = 512, *, without_windows: bool = False) -> Any:
    model = SimpleNamespace(
        hf_text_config=config, max_model_len=length, disable_sliding_window=without_windows
    )
    return SimpleNamespace(model_config=model)


def declared(config: Any, length: int = 512) -> tuple[Declaration, ...]:
    return declarations(whole(config, length))


def configured(model_type: str, **fields: Any) -> Any:
    given = {**SIZE, **fields}
    if model_type in ("cohere2", "exaone4"):
        del given["head_dim"]
    return AutoConfig.for_model(model_type, **given)


def of(model_type: str, **fields: Any) -> tuple[Declaration, ...]:
    return declared(configured(model_type, **fields))


def rotates(layers: tuple[Declaration, ...]) -> list[bool]:
    return [layer.profile is not None for layer in layers]


def windows(layers: tuple[Declaration, ...]) -> list[int | None]:
    return [layer.window for layer in layers]


def test_a_plain_model_rotates_all_its_layers_and_sees_all() -> None:
    layers = of("llama")
    assert rotates(layers) == [True] * 4
    assert windows(layers) == [None] * 4
    assert {layer.query_scale for layer in layers} == {None}


def test_a_model_without_a_rule_is_refused_by_name() -> None:
    """Its positions are learned, or ALiBi's."""
    with pytest.raises(UnsupportedModelError, match="gpt2 declares no RoPE rule"):
        of("gpt2")


def test_smollm3_rotates_where_its_flag_is_1_and_has_windows_elsewhere() -> None:
    """transformers#43756, smollm#130: `no_rope_layers` was read inverted."""
    layers = of("smollm3", no_rope_layers=[1, 1, 1, 0], use_sliding_window=True, sliding_window=64)
    assert rotates(layers) == [True, True, True, False]
    assert windows(layers) == [None, None, None, 64]


def test_cohere2_rotates_its_windowed_layers_which_see_one_token_more() -> None:
    layers = of("cohere2", sliding_window=64, layer_types=MIXED)
    assert rotates(layers) == [True, True, True, False]
    assert windows(layers) == [65, 65, 65, None]


def test_exaone4_rotates_all_layers_only_where_it_has_no_window_at_all() -> None:
    layers = of("exaone4", sliding_window=64, layer_types=MIXED)
    assert rotates(layers) == [True, True, True, False]
    assert windows(layers) == [64, 64, 64, None]
    full = ["full_attention"] * 4
    assert rotates(of("exaone4", sliding_window=64, layer_types=full)) == [False] * 4
    assert rotates(of("exaone4", sliding_window=None, layer_types=full)) == [True] * 4


def test_llama4_scales_the_queries_of_layers_that_do_not_rotate() -> None:
    layers = of("llama4_text", no_rope_layers=[1, 1, 1, 0], attention_chunk_size=64)
    assert rotates(layers) == [True, True, True, False]
    assert windows(layers) == [64, 64, 64, None]
    assert [layer.chunked for layer in layers] == [True, True, True, False]
    assert [layer.query_scale for layer in layers] == [None, None, None, QueryScale(8192, 0.1, 1)]


def test_llama4_without_chunks_sees_all() -> None:
    layers = of("llama4_text", attention_chunk_size=None)
    assert windows(layers) == [None] * 4
    assert [layer.chunked for layer in layers] == [False] * 4


def test_a_query_scale_begins_at_its_floor() -> None:
    llama4, mistral = QueryScale(8192, 0.1, 1), QueryScale(8192, 0.1, 0)
    assert [llama4.at(position) for position in (0, 8190, 8191)] == [1, 1, 1 + 0.1 * math.log(2)]
    assert [mistral.at(position) for position in (0, 8191, 8192)] == [1, 1, 1 + 0.1 * math.log(2)]


def test_each_kind_of_layer_has_its_own_rule() -> None:
    """vllm#29111, llama.cpp#14367: Gemma 3's scaling leaked into local layers."""
    rules = {
        "full_attention": {"rope_type": "linear", "rope_theta": 1_000_000.0, "factor": 8.0},
        "sliding_attention": {"rope_type": "default", "rope_theta": 10_000.0},
    }
    layers = of("gemma3_text", sliding_window=64, layer_types=MIXED, rope_parameters=rules)
    profiles = [layer.profile for layer in layers]
    assert [profile.base for profile in profiles if profile] == [10_000.0] * 3 + [1_000_000.0]
    assert [profile.rope_type for profile in profiles if profile] == ["default"] * 3 + ["linear"]


def test_a_window_without_layer_types_is_that_of_all_layers() -> None:
    assert windows(of("mistral", sliding_window=64)) == [64] * 4
    assert windows(of("mistral", sliding_window=None)) == [None] * 4


@pytest.mark.parametrize("model_type", ["cohere2", "exaone4", "gemma3_text", "qwen2"])
def test_a_type_that_has_a_window_contradicts_a_model_without(model_type: str) -> None:
    """transformers cannot make its mask, and vLLM sees all or breaks off."""
    why = "layer 0 is of type sliding_attention, and its config has no sliding_window"
    with pytest.raises(UnsupportedModelError, match=why):
        check_windows(whole(configured(model_type, sliding_window=None, layer_types=MIXED)))


def test_a_window_that_is_not_to_be_used_contradicts_a_layers_type() -> None:
    fields: dict[str, Any] = {"sliding_window": 64, "use_sliding_window": False}
    why = "layer 1 is of type sliding_attention, and its config says that no window is used"
    with pytest.raises(UnsupportedModelError, match=why):
        check_windows(whole(configured("smollm3", layer_types=MIXED[::-1], **fields)))


def test_a_window_that_no_layer_has_contradicts_nothing() -> None:
    full = ["full_attention"] * 4
    fields: dict[str, Any] = {"sliding_window": 64, "use_sliding_window": False}
    check_windows(whole(configured("smollm3", layer_types=full, **fields)))
    check_windows(whole(configured("cohere2", layer_types=full, sliding_window=None)))


@pytest.mark.parametrize(
    ("model_type", "covered"), [("gemma3_text", True), ("cohere2", False), ("exaone4", False)]
)
def test_windows_may_be_switched_off_where_rotation_does_not_follow_them(
    model_type: str, covered: bool
) -> None:
    config = configured(model_type, sliding_window=64, layer_types=MIXED)
    # So vLLM leaves it, for the flag and for a window of 0.
    config.sliding_window = None
    if covered:
        check_windows(whole(config, without_windows=True))
        assert windows(declared(config)) == [None] * 4
    else:
        with pytest.raises(UnsupportedModelError, match=r"layer 0 .* would no longer rotate"):
            check_windows(whole(config, without_windows=True))


def test_longrope_takes_its_factors_for_the_longest_request() -> None:
    rule = {
        "rope_type": "longrope",
        "rope_theta": 10_000.0,
        "short_factor": [1.0] * 16,
        "long_factor": [2.0] * 16,
        "original_max_position_embeddings": 128,
    }
    config = AutoConfig.for_model("llama", **SIZE, rope_parameters=rule)
    (short, *_), (long, *_) = (declared(config, length) for length in (128, 512))
    assert short.profile is not None
    assert long.profile is not None
    assert short.profile.frequencies[1] == pytest.approx(2 * long.profile.frequencies[1])


def test_a_kind_of_layer_that_is_unknown_is_refused_by_name() -> None:
    with pytest.raises(UnsupportedModelError, match="layer 1 is of type linear_attention: not covered"):
        of("qwen3", layer_types=["full_attention", "linear_attention"] * 2)


@pytest.mark.parametrize("pattern", PATTERNS)
def test_our_own_architecture_says_everything_layer_by_layer(pattern: str) -> None:
    given = PATTERNS[pattern]
    fields = {"num_hidden_layers": len(given.get("layers") or given["layer_pattern"]), **given}
    size = {**SIZE, "vocab_size": 256, "intermediate_size": 256, "tie_word_embeddings": False}
    config = RopewayConfig(**{**size, **fields})
    for layer, found in zip(config.architecture.every_layer, declared(config), strict=True):
        assert found.window == layer.window
        assert (found.profile is None) == (layer.base is None)
        assert found.rotates == (layer.rotary != "none")
        assert found.bias == layer.bias
        assert (found.query_scale is None) == (layer.query_scale is None)
        if found.profile is not None:
            assert found.paired
            assert found.profile.base == layer.base
            assert found.profile.pairing == (layer.pairing or "half")
            assert found.profile.rotary_dim == layer.rotary_dim(32)
