"""Profiles: the frequencies and attention factor that transformers rotates by, and a digest of them."""

import dataclasses
import os
import struct
import subprocess
import sys
from collections.abc import Callable
from typing import Any

import mpmath
import pytest
import torch
from transformers import Gemma3TextConfig, GlmConfig, LlamaConfig, Phi3Config
from transformers.models.gemma3.modeling_gemma3 import Gemma3RotaryEmbedding
from transformers.models.glm.modeling_glm import GlmRotaryEmbedding
from transformers.models.llama.modeling_llama import LlamaRotaryEmbedding
from transformers.models.phi3.modeling_phi3 import Phi3RotaryEmbedding

from positional.profile import Profile, ProfileError

PLANES = 16
NATIVE = 2048
LONGROPE = {
    "rope_type": "longrope",
    "rope_theta": 10000.0,
    "original_max_position_embeddings": NATIVE,
    "short_factor": [1.0 + 0.01 * m for m in range(PLANES)],
    "long_factor": [1.5 + 0.5 * m for m in range(PLANES)],
}
RULES: dict[str, dict[str, Any]] = {
    "default": {"rope_type": "default", "rope_theta": 500000.0},
    "linear": {"rope_type": "linear", "rope_theta": 10000.0, "factor": 4.0},
    "dynamic": {"rope_type": "dynamic", "rope_theta": 10000.0, "factor": 2.0},
    "yarn": {
        "rope_type": "yarn",
        "rope_theta": 10000.0,
        "factor": 16.0,
        "original_max_position_embeddings": NATIVE,
    },
    "yarn-mscale": {
        "rope_type": "yarn",
        "rope_theta": 10000.0,
        "factor": 4.0,
        "original_max_position_embeddings": NATIVE,
        "beta_fast": 16.0,
        "beta_slow": 2.0,
        "mscale": 1.0,
        "mscale_all_dim": 0.5,
        "truncate": False,
    },
    "yarn-attention": {
        "rope_type": "yarn",
        "rope_theta": 10000.0,
        "factor": 4.0,
        "original_max_position_embeddings": NATIVE,
        "attention_factor": 1.25,
    },
    "llama3": {
        "rope_type": "llama3",
        "rope_theta": 500000.0,
        "factor": 8.0,
        "low_freq_factor": 1.0,
        "high_freq_factor": 4.0,
        "original_max_position_embeddings": 256,
    },
    "longrope": LONGROPE,
}
RULE = pytest.mark.parametrize("rule", [pytest.param(rule, id=name) for name, rule in RULES.items()])


def llama(rule: dict[str, Any], max_position_embeddings: int = NATIVE, **more: Any) -> LlamaConfig:
    return LlamaConfig(
        hidden_size=4 * 2 * PLANES,
        num_attention_heads=4,
        head_dim=2 * PLANES,
        max_position_embeddings=max_position_embeddings,
        rope_parameters=dict(rule),
        **more,
    )


def same(profile: Profile, frequencies: torch.Tensor, attention_factor: float) -> bool:
    """Equal up to the rounding of transformers' float32."""
    close = torch.allclose(profile.inverse_frequencies, frequencies.double(), rtol=3e-7, atol=0)
    return close and profile.attention_factor == pytest.approx(attention_factor, rel=1e-12)


@RULE
def test_every_rule_equals_the_rotary_module_of_transformers(rule: dict[str, Any]) -> None:
    config = llama(rule)
    module = LlamaRotaryEmbedding(config)
    assert same(Profile.from_config(config), module.inv_freq, module.attention_scaling)


@RULE
def test_reading_a_configuration_leaves_it_alone(rule: dict[str, Any]) -> None:
    config = llama(rule)
    before = config.to_json_string()
    Profile.from_config(config, max_length=3 * NATIVE)
    assert config.to_json_string() == before


@RULE
def test_the_old_spelling_gives_the_same_profile(rule: dict[str, Any]) -> None:
    scaling = {name: value for name, value in rule.items() if name not in ("rope_theta", "rope_type")}
    old = LlamaConfig(
        hidden_size=4 * 2 * PLANES,
        num_attention_heads=4,
        head_dim=2 * PLANES,
        max_position_embeddings=NATIVE,
        rope_theta=rule["rope_theta"],
        rope_scaling=None if rule["rope_type"] == "default" else {"type": rule["rope_type"], **scaling},
    )
    profile = Profile.from_config(old)
    assert profile == Profile.from_config(llama(rule))
    assert profile.base == rule["rope_theta"]


@pytest.mark.parametrize(("layer_type", "base"), [("sliding_attention", 1e4), ("full_attention", 1e6)])
def test_a_nested_rule_is_picked_by_layer_type(layer_type: str, base: float) -> None:
    config = Gemma3TextConfig(
        head_dim=32,
        rope_parameters={
            "sliding_attention": {"rope_type": "default", "rope_theta": 1e4},
            "full_attention": {"rope_type": "linear", "rope_theta": 1e6, "factor": 8.0},
        },
    )
    module: Any = Gemma3RotaryEmbedding(config)
    profile = Profile.from_config(config, layer_type=layer_type)
    assert profile.base == base
    assert same(
        profile,
        getattr(module, f"{layer_type}_inv_freq"),
        getattr(module, f"{layer_type}_attention_scaling"),
    )


def test_a_layer_type_without_a_rule_is_refused() -> None:
    config = Gemma3TextConfig(head_dim=32)
    with pytest.raises(ProfileError) as refused:
        Profile.from_config(config, layer_type="chunked_attention")
    assert refused.value.field == "rope_parameters"
    assert refused.value.value == "chunked_attention"


def test_a_partial_width_rotates_the_first_dimensions_only() -> None:
    config = GlmConfig(
        hidden_size=256,
        num_attention_heads=4,
        head_dim=64,
        rope_parameters={"rope_type": "default", "rope_theta": 1e4, "partial_rotary_factor": 0.5},
    )
    profile = Profile.from_config(config, pairing="interleaved")
    assert (profile.rotary_dim, profile.planes, profile.pairing) == (32, 16, "interleaved")
    assert same(profile, GlmRotaryEmbedding(config).inv_freq, 1.0)


@pytest.mark.parametrize("name", ["linear", "dynamic", "yarn", "llama3"])
def test_a_partial_width_holds_under_scaling(name: str) -> None:
    config = llama(RULES[name] | {"partial_rotary_factor": 0.5})
    profile = Profile.from_config(config)
    module = LlamaRotaryEmbedding(config)
    assert profile.rotary_dim == PLANES
    assert same(profile, module.inv_freq, module.attention_scaling)


def test_a_head_width_that_is_not_declared_is_hidden_size_over_heads() -> None:
    config = Phi3Config(hidden_size=128, num_attention_heads=4, pad_token_id=0)
    assert Profile.from_config(config).rotary_dim == 32


@pytest.mark.parametrize(("excess", "factors"), [(-1, "short"), (0, "short"), (1, "long")])
def test_longrope_takes_its_long_factors_beyond_the_native_window(excess: int, factors: str) -> None:
    length = NATIVE + excess
    config = Phi3Config(
        hidden_size=128,
        num_attention_heads=4,
        pad_token_id=0,
        max_position_embeddings=8 * NATIVE,
        original_max_position_embeddings=NATIVE,
        rope_parameters=dict(LONGROPE),
    )
    profile = Profile.from_config(config, max_length=length)
    plain = Profile.rope(1e4, 2 * PLANES).inverse_frequencies
    divisor = torch.tensor(LONGROPE[f"{factors}_factor"], dtype=torch.float64)
    module = Phi3RotaryEmbedding(config)
    module(torch.zeros(1), torch.arange(length)[None])
    assert same(profile, plain / divisor, module.attention_scaling)
    assert same(profile, module.inv_freq, module.attention_scaling)


def test_longrope_without_a_length_is_fixed_at_the_positions_of_the_configuration() -> None:
    assert Profile.from_config(llama(LONGROPE)) == Profile.from_config(llama(LONGROPE), max_length=NATIVE)
    extended = llama(LONGROPE, max_position_embeddings=2 * NATIVE)
    assert Profile.from_config(extended) == Profile.from_config(extended, max_length=NATIVE + 1)


@pytest.mark.parametrize("length", [NATIVE - 1, NATIVE, NATIVE + 1, 4 * NATIVE])
def test_dynamic_ntk_is_fixed_at_a_length(length: int) -> None:
    config = llama(RULES["dynamic"])
    module = LlamaRotaryEmbedding(config)
    module(torch.zeros(1), torch.arange(length)[None])
    assert same(Profile.from_config(config, max_length=length), module.inv_freq, 1.0)


def test_dynamic_ntk_slows_down_beyond_the_native_window_only() -> None:
    config = llama(RULES["dynamic"])
    native, beyond = (Profile.from_config(config, max_length=n) for n in (NATIVE, 4 * NATIVE))
    assert torch.allclose(native.inverse_frequencies, Profile.rope(1e4, 2 * PLANES).inverse_frequencies)
    assert (beyond.inverse_frequencies[1:] < native.inverse_frequencies[1:]).all()


def changed(change: Callable[[dict[str, Any]], Any], rule: str = "linear") -> LlamaConfig:
    """A configuration whose rule was changed after transformers had checked it."""
    config = llama(RULES[rule])
    change(config.rope_parameters)
    return config


@pytest.mark.parametrize("rope_type", ["proportional", "mrope", "su", ""])
def test_an_unknown_rule_is_refused_by_name(rope_type: str) -> None:
    with pytest.raises(ProfileError, match="rope_type") as refused:
        Profile.from_config(changed(lambda rule: rule.update(rope_type=rope_type)))
    assert (refused.value.field, refused.value.value) == ("rope_type", rope_type)


@pytest.mark.parametrize(
    ("rule", "parameter"),
    [
        ("linear", "factor"),
        ("dynamic", "factor"),
        ("yarn", "factor"),
        ("llama3", "factor"),
        ("llama3", "low_freq_factor"),
        ("llama3", "high_freq_factor"),
        ("longrope", "short_factor"),
        ("longrope", "long_factor"),
    ],
)
def test_a_missing_parameter_is_named(rule: str, parameter: str) -> None:
    with pytest.raises(ProfileError, match=rule) as refused:
        Profile.from_config(changed(lambda parameters: parameters.pop(parameter), rule))
    assert refused.value.field == f"rope_parameters.{parameter}"


@pytest.mark.parametrize(
    ("rule", "parameters"),
    [
        ("linear", {"factor": None}),
        ("linear", {"factor": 0.0}),
        ("linear", {"factor": "four"}),
        ("longrope", {"short_factor": [1.0, 2.0, 3.0]}),
    ],
)
def test_a_parameter_that_gives_no_frequencies_is_refused(rule: str, parameters: dict[str, Any]) -> None:
    with pytest.raises(ProfileError):
        Profile.from_config(changed(lambda rule: rule.update(parameters), rule))


def test_a_configuration_without_rope_is_refused() -> None:
    with pytest.raises(ProfileError, match="declares no RoPE rule"):
        Profile.from_config(changed(lambda rule: rule.update(rope_theta=None)))


@pytest.mark.parametrize(
    ("base", "rotary_dim", "field"),
    [
        (1.0, 64, "base"),
        (-1e4, 64, "base"),
        (float("nan"), 64, "base"),
        (float("inf"), 64, "base"),
        (1e4, 63, "rotary_dim"),
        (1e4, 0, "rotary_dim"),
        (1e4, -2, "rotary_dim"),
    ],
)
def test_an_impossible_rule_names_its_field(base: float, rotary_dim: int, field: str) -> None:
    with pytest.raises(ProfileError) as refused:
        Profile.rope(base, rotary_dim)
    assert refused.value.field == field


def test_an_unknown_pairing_is_refused() -> None:
    pairing: Any = "halves"
    with pytest.raises(ProfileError, match="half, interleaved") as refused:
        Profile.rope(1e4, 64, pairing)
    assert (refused.value.field, refused.value.value) == ("pairing", "halves")


@pytest.mark.parametrize("frequencies", [(), (1.0,), (1.0, 0.0), (1.0, float("nan")), (1.0, float("inf"))])
def test_a_profile_has_one_positive_frequency_a_plane(frequencies: tuple[float, ...]) -> None:
    with pytest.raises(ProfileError, match="frequencies"):
        Profile(1e4, 4, frequencies=frequencies)


# The second base is no float32 number.
@pytest.mark.parametrize("base", [500000.0, 1234567.891])
def test_unscaled_frequencies_are_exact_to_float64(base: float) -> None:
    profile = Profile.rope(base, 128)
    assert profile.inverse_frequencies.dtype == torch.float64
    with mpmath.workdps(40):
        exact = [float(mpmath.power(base, mpmath.mpf(-m) / 64)) for m in range(64)]
    assert profile.frequencies == pytest.approx(exact, rel=1e-15, abs=0)


PLAIN = Profile(1e4, 4, frequencies=(1.0, 0.01))


@pytest.mark.parametrize(
    "other",
    [
        {"frequencies": (1.0, 0.010000000000000002)},
        {"frequencies": (0.01, 1.0)},
        {"attention_factor": 1.0000000000000002},
        {"pairing": "interleaved"},
        {"rotary_dim": 6, "frequencies": (1.0, 0.01, 0.001)},
    ],
)
def test_the_digest_differs_for_any_number_that_decides_a_rotation(other: dict[str, Any]) -> None:
    assert dataclasses.replace(PLAIN, **other).digest != PLAIN.digest


@pytest.mark.parametrize(
    ("rule", "number"),
    [
        ("default", "rope_theta"),
        ("linear", "factor"),
        ("dynamic", "factor"),
        ("yarn", "factor"),
        ("yarn-mscale", "original_max_position_embeddings"),
        ("yarn-mscale", "beta_fast"),
        ("yarn-mscale", "beta_slow"),
        ("yarn-mscale", "mscale"),
        ("yarn-attention", "attention_factor"),
        ("llama3", "low_freq_factor"),
        ("llama3", "high_freq_factor"),
    ],
)
def test_the_digest_follows_every_number_of_a_rule(rule: str, number: str) -> None:
    length = 4 * NATIVE
    one = Profile.from_config(llama(RULES[rule]), max_length=length)
    other = Profile.from_config(
        changed(lambda numbers: numbers.update({number: numbers[number] * 1.5}), rule), max_length=length
    )
    assert one.digest != other.digest


@pytest.mark.parametrize("hash_seed", ["0", "4711"])
def test_the_digest_is_the_same_in_every_process(hash_seed: str) -> None:
    code = "from positional.profile import Profile; print(Profile.rope(500000.0, 128).digest.hex())"
    result = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", code],
        env=os.environ | {"PYTHONHASHSEED": hash_seed},
        capture_output=True,
        text=True,
        check=True,
    )
    assert result.stdout.strip() == Profile.rope(500000.0, 128).digest.hex()


def test_equal_profiles_of_two_makers_are_equal() -> None:
    rule = {"rope_type": "default", "rope_theta": 500000.0}
    declared, made = Profile.from_config(llama(rule)), Profile.rope(500000.0, 2 * PLANES)
    assert (declared, hash(declared), declared.digest) == (made, hash(made), made.digest)


def test_a_description_holds_the_rule_and_its_frequencies() -> None:
    profile = Profile.from_config(llama(LONGROPE))
    described = profile.describe()
    assert described["rope_type"] == "longrope"
    assert described["long_factor"] == LONGROPE["long_factor"]
    assert described["inverse_frequencies"] == list(profile.frequencies)


@pytest.mark.parametrize("rule", sorted(RULES))
def test_a_profile_rotates_the_same_after_its_journey(rule: str) -> None:
    sent = Profile.from_config(llama(RULES[rule]), max_length=4 * NATIVE, pairing="interleaved")
    received = Profile.from_bytes(sent.to_bytes())
    assert received.digest == sent.digest
    assert (received.frequencies, received.attention_factor) == (sent.frequencies, sent.attention_factor)
    assert (received.base, received.rotary_dim, received.pairing) == (
        sent.base,
        sent.rotary_dim,
        "interleaved",
    )


@pytest.mark.parametrize(
    "data",
    [
        b"",
        PLAIN.to_bytes()[:-1],
        PLAIN.to_bytes() + b"\0",
        b"RWX1" + PLAIN.to_bytes()[4:],
        PLAIN.to_bytes()[:20],
    ],
)
def test_malformed_bytes_are_no_profile(data: bytes) -> None:
    with pytest.raises(ProfileError, match="profile"):
        Profile.from_bytes(data)


def test_bytes_of_unusable_numbers_are_no_profile() -> None:
    endless = PLAIN.to_bytes()[:-8] + struct.pack("<d", float("inf"))
    with pytest.raises(ProfileError, match="finite"):
        Profile.from_bytes(endless)
