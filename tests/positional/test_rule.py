"""Rules: what a configuration or a request says of RoPE, the profiles of its lengths, and what it covers."""

import json
import math
from pathlib import Path
from typing import Any

import pytest
import torch
from transformers import Gemma3TextConfig, GlmConfig, LlamaConfig, Phi3Config
from transformers.models.gemma3.modeling_gemma3 import Gemma3RotaryEmbedding
from transformers.models.llama.modeling_llama import LlamaRotaryEmbedding
from transformers.models.phi3.modeling_phi3 import Phi3RotaryEmbedding

from positional.phases import rotation_rows
from positional.profile import Profile, ProfileError
from positional.rule import ModelRope, main_layer_type

PLANES = 16
NATIVE = 2048
BASE = 10_000.0
NAN, INFINITY = math.nan, math.inf
SHORT = [1.0 + 0.01 * plane for plane in range(PLANES)]
LONG = [1.5 + 0.5 * plane for plane in range(PLANES)]
SCALINGS: dict[str, dict[str, Any]] = {
    "linear": {"rope_type": "linear", "factor": 4.0},
    "dynamic": {"rope_type": "dynamic", "factor": 4.0},
    "yarn": {"rope_type": "yarn", "factor": 4.0},
    "llama3": {"rope_type": "llama3", "factor": 4.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0},
    "longrope": {"rope_type": "longrope", "factor": 4.0, "short_factor": SHORT, "long_factor": LONG},
}
WITH_ORIGINAL = ("yarn", "llama3", "longrope")
SCALING = pytest.mark.parametrize("scaling", [pytest.param(s, id=name) for name, s in SCALINGS.items()])
VECTORS = json.loads((Path(__file__).parent / "vectors" / "scaled.json").read_text())


def llama(rope: dict[str, Any] | None = None, positions: int = NATIVE, **more: Any) -> LlamaConfig:
    return LlamaConfig(
        hidden_size=4 * 2 * PLANES,
        num_attention_heads=4,
        head_dim=2 * PLANES,
        max_position_embeddings=positions,
        rope_parameters=dict(rope or {"rope_type": "default", "rope_theta": BASE}),
        **more,
    )


def declared(scaling: dict[str, Any], positions: int = NATIVE) -> LlamaConfig:
    """A configuration whose own rule is a scaled one."""
    return llama({"rope_theta": BASE, **scaling}, positions)


def phi3(**rope: Any) -> Phi3Config:
    return Phi3Config(
        hidden_size=128,
        num_attention_heads=4,
        pad_token_id=0,
        max_position_embeddings=4 * NATIVE,
        original_max_position_embeddings=NATIVE,
        rope_parameters={"rope_theta": BASE, "rope_type": "longrope", "short_factor": SHORT}
        | {"long_factor": LONG}
        | rope,
    )


def same(profile: Profile, frequencies: torch.Tensor, attention_factor: float = 1.0) -> bool:
    """Equal up to the rounding of transformers' float32."""
    close = torch.allclose(profile.inverse_frequencies, frequencies.double(), rtol=3e-7, atol=0)
    return close and profile.attention_factor == pytest.approx(attention_factor, rel=1e-12)


def module_at(config: Any, length: int, kind: Any = LlamaRotaryEmbedding) -> Any:
    """transformers' rotary module after it saw a sequence of a length."""
    module = kind(config)
    module(torch.zeros(1), torch.arange(length)[None])
    return module


MODEL = ModelRope.from_config(llama())


# --- what a request's rule rotates by ---


@SCALING
@pytest.mark.parametrize("length", [100, NATIVE - 1, NATIVE, NATIVE + 1, 4 * NATIVE])
def test_a_requests_scaling_rotates_as_transformers_does(scaling: dict[str, Any], length: int) -> None:
    original = {"original_max_position_embeddings": NATIVE} if scaling["rope_type"] in WITH_ORIGINAL else {}
    module = module_at(llama({"rope_theta": BASE, **scaling, **original}), length)
    profile = MODEL.rule(scaling=scaling).profile(length)
    assert same(profile, module.inv_freq, module.attention_scaling)


@pytest.mark.parametrize("case", VECTORS, ids=lambda case: case["rope_parameters"]["rope_type"])
def test_a_requests_scaling_agrees_with_independent_values(case: dict[str, Any]) -> None:
    scaling = dict(case["rope_parameters"])
    base = scaling.pop("rope_theta")
    profile = MODEL.rule(base, scaling).profile(4096)
    assert same(profile, torch.tensor(case["inverse_frequencies"]), case["attention_factor"])


def test_a_base_alone_keeps_the_models_own_scaling() -> None:
    model = ModelRope.from_config(declared(SCALINGS["linear"]))
    rule = model.rule(base=500_000)
    assert (rule.base, rule.rope_type, rule.window) == (500_000.0, "linear", 4 * NATIVE)
    assert same(
        rule.profile(10), LlamaRotaryEmbedding(llama({"rope_theta": 5e5, **SCALINGS["linear"]})).inv_freq
    )


def test_a_scaling_alone_keeps_the_models_own_base() -> None:
    assert MODEL.rule(scaling=SCALINGS["yarn"]).base == BASE


def test_the_default_type_takes_a_scaling_off() -> None:
    model = ModelRope.from_config(declared(SCALINGS["linear"]))
    rule = model.rule(scaling={"rope_type": "default"})
    assert rule.profile(10) == Profile.rope(BASE, 2 * PLANES)
    assert rule.window == NATIVE


def test_nothing_given_is_the_models_own_rule() -> None:
    for config in (llama(), declared(SCALINGS["linear"]), phi3()):
        model = ModelRope.from_config(config)
        assert model.rule() == model.own


def test_repeating_the_models_own_scaling_is_its_own_rule() -> None:
    scaling = {**SCALINGS["llama3"], "original_max_position_embeddings": 512}
    model = ModelRope.from_config(declared(scaling, positions=8 * NATIVE))
    assert model.own.window == 8 * NATIVE
    assert model.rule(scaling=scaling) == model.own


def test_null_members_are_left_out() -> None:
    assert MODEL.rule(scaling={**SCALINGS["yarn"], "attention_factor": None, "mscale": None}) == MODEL.rule(
        scaling=SCALINGS["yarn"]
    )


def test_the_rotary_share_and_the_pairing_stay_the_models() -> None:
    config = GlmConfig(
        hidden_size=256,
        num_attention_heads=4,
        head_dim=64,
        max_position_embeddings=NATIVE,
        rope_parameters={"rope_type": "default", "rope_theta": BASE, "partial_rotary_factor": 0.5},
    )
    profile = ModelRope.from_config(config, pairing="interleaved").rule(2e4, SCALINGS["linear"]).profile(10)
    assert (profile.rotary_dim, profile.pairing) == (32, "interleaved")
    assert same(profile, Profile.rope(2e4, 32).inverse_frequencies / 4)


def test_a_pairing_learnt_later_changes_nothing_else() -> None:
    paired = MODEL.paired("interleaved")
    assert paired == ModelRope.from_config(llama(), pairing="interleaved")
    assert paired.rule(scaling=SCALINGS["yarn"]) == MODEL.rule(scaling=SCALINGS["yarn"]).paired("interleaved")


def test_the_attention_factor_scales_a_rotated_key_once() -> None:
    profile = MODEL.rule(scaling={"rope_type": "yarn", "factor": 16.0}).profile(10)
    rows = rotation_rows(torch.full((1, PLANES), 1234.5), profile, torch.float64)
    cos, sin = rows.chunk(2, dim=-1)
    assert torch.allclose(torch.hypot(cos, sin), torch.full((1, PLANES), 0.1 * math.log(16) + 1).double())


# --- dynamic NTK and longrope, whose frequencies follow the length ---


def test_dynamic_ntk_is_unscaled_inside_the_native_window() -> None:
    rule = MODEL.rule(scaling=SCALINGS["dynamic"])
    plain = Profile.rope(BASE, 2 * PLANES)
    assert rule.profile(NATIVE).digest == plain.digest
    assert rule.profile(NATIVE + 1).digest != plain.digest


def test_dynamic_ntk_is_fixed_by_each_length() -> None:
    rule = MODEL.rule(scaling=SCALINGS["dynamic"])
    digests = {rule.profile(length).digest for length in (NATIVE + 1000, NATIVE + 2000, NATIVE + 3000)}
    assert len(digests) == 3


@pytest.mark.parametrize("excess", [-1, 0, 1])
def test_longrope_goes_over_to_its_long_factors_beyond_the_native_window(excess: int) -> None:
    config = phi3()
    module = module_at(config, NATIVE + excess, Phi3RotaryEmbedding)
    profile = ModelRope.from_config(config).own.profile(NATIVE + excess)
    assert same(profile, module.inv_freq, module.attention_scaling)


def test_a_longrope_model_has_its_short_factors_as_native_rule() -> None:
    model = ModelRope.from_config(phi3())
    assert (model.window, model.native.window, model.own.window) == (NATIVE, NATIVE, 4 * NATIVE)
    for length in (1, NATIVE, NATIVE + 1, 4 * NATIVE):
        assert model.native.profile(length).digest == model.own.profile(NATIVE).digest


def test_a_settled_longrope_rule_no_longer_follows_the_length() -> None:
    own = ModelRope.from_config(phi3()).own
    assert own.settled(NATIVE + 1).profile(5).digest == own.profile(NATIVE + 1).digest
    assert own.settled(NATIVE).profile(4 * NATIVE).digest == own.profile(NATIVE).digest


def test_longrope_may_leave_its_factor_to_the_configurations_lengths() -> None:
    scaling = {"rope_type": "longrope", "short_factor": LONG, "long_factor": LONG}
    rule = ModelRope.from_config(phi3()).rule(scaling=scaling)
    assert rule.window == 4 * NATIVE
    with pytest.raises(ProfileError) as refused:
        MODEL.rule(scaling=scaling)
    assert refused.value.field == "scaling.factor"


# --- configurations ---


@SCALING
def test_a_configurations_own_rule_equals_transformers(scaling: dict[str, Any]) -> None:
    config = declared(scaling)
    own = ModelRope.from_config(config).own
    for length in (NATIVE, 2 * NATIVE):
        module = module_at(config, length)
        assert same(own.profile(length), module.inv_freq, module.attention_scaling)


@SCALING
def test_the_old_spelling_is_the_same_rule(scaling: dict[str, Any]) -> None:
    parameters = {name: value for name, value in scaling.items() if name != "rope_type"}
    old = LlamaConfig(
        hidden_size=4 * 2 * PLANES,
        num_attention_heads=4,
        head_dim=2 * PLANES,
        max_position_embeddings=NATIVE,
        rope_theta=BASE,
        rope_scaling={"type": scaling["rope_type"], **parameters},
    )
    assert ModelRope.from_config(old) == ModelRope.from_config(declared(scaling))


def test_a_scaled_configuration_has_its_original_window() -> None:
    scaling = {**SCALINGS["yarn"], "original_max_position_embeddings": NATIVE // 2}
    model = ModelRope.from_config(declared(scaling, positions=NATIVE))
    assert (model.window, model.own.window) == (NATIVE // 2, 2 * NATIVE)
    assert model.native.profile(10) == Profile.rope(BASE, 2 * PLANES)
    assert model.declared == model.own


def test_an_unscaled_configuration_declares_nothing() -> None:
    assert MODEL.declared is None
    assert MODEL.own == MODEL.native
    assert MODEL.window == NATIVE


GEMMA = {
    "sliding_attention": {"rope_type": "default", "rope_theta": 1e4},
    "full_attention": {"rope_type": "linear", "rope_theta": 1e6, "factor": 8.0},
}


def test_of_a_rule_per_layer_type_only_full_attention_is_replaced() -> None:
    config = Gemma3TextConfig(head_dim=32, max_position_embeddings=8 * NATIVE, rope_parameters=GEMMA)
    assert main_layer_type(config) == "full_attention"
    model = ModelRope.from_config(config, layer_type="full_attention")
    module: Any = Gemma3RotaryEmbedding(config)
    assert same(model.own.profile(10), module.full_attention_inv_freq)
    assert model.rule(scaling={"rope_type": "linear", "factor": 2}).base == 1e6


def test_gemma_counts_its_positions_scaled() -> None:
    config = Gemma3TextConfig(head_dim=32, max_position_embeddings=8 * NATIVE, rope_parameters=GEMMA)
    model = ModelRope.from_config(config, layer_type="full_attention")
    assert (model.window, model.own.window) == (NATIVE, 8 * NATIVE)


@pytest.mark.parametrize(
    ("rope", "expected"),
    [
        (None, None),
        ({"rope_type": "default", "rope_theta": BASE}, None),
        ({"sliding_attention": {"rope_type": "default"}}, "sliding_attention"),
    ],
)
def test_the_main_layer_type(rope: dict[str, Any] | None, expected: str | None) -> None:
    class Config:
        rope_parameters = rope

    assert main_layer_type(Config()) == expected


@pytest.mark.parametrize("rope_type", ["proportional", "mrope", ""])
def test_an_unknown_rule_of_a_configuration_is_refused(rope_type: str) -> None:
    config = llama()
    config.rope_parameters["rope_type"] = rope_type
    with pytest.raises(ProfileError) as refused:
        ModelRope.from_config(config)
    assert refused.value.field == "rope_type"


# --- what a rule covers ---


@SCALING
def test_a_scaled_rule_covers_its_window_times_its_factor(scaling: dict[str, Any]) -> None:
    assert MODEL.rule(scaling=scaling).window == 4 * NATIVE


def test_a_named_original_window_is_the_one_that_is_scaled() -> None:
    scaling = {**SCALINGS["yarn"], "original_max_position_embeddings": 512}
    assert MODEL.rule(scaling=scaling).window == 4 * 512


def test_a_fractional_factor_covers_whole_tokens() -> None:
    assert MODEL.rule(scaling={"rope_type": "linear", "factor": 1.3}).window == int(NATIVE * 1.3)


def test_a_higher_base_covers_as_much_more_as_it_slows_the_slowest_plane() -> None:
    slowest, slower = (Profile.rope(base, 2 * PLANES).frequencies[-1] for base in (BASE, 4 * BASE))
    assert MODEL.rule(base=4 * BASE).window == int(NATIVE * slowest / slower)


@pytest.mark.parametrize("base", [BASE, BASE / 2, 2])
def test_a_base_that_is_not_higher_covers_the_native_window(base: float) -> None:
    assert MODEL.rule(base=base).window == NATIVE


# --- what is refused ---


@pytest.mark.parametrize("base", [1, 0, -5, True, "10000", NAN, INFINITY, 10**400, [1e4], {}])
def test_a_base_out_of_range_is_named(base: object) -> None:
    with pytest.raises(ProfileError) as refused:
        MODEL.rule(base=base)
    assert (refused.value.field, refused.value.reason) == ("base", "must be a finite number above 1")


@pytest.mark.parametrize("scaling", [3, "yarn", [], True])
def test_a_scaling_that_is_no_object_is_refused(scaling: object) -> None:
    with pytest.raises(ProfileError, match="must be an object"):
        MODEL.rule(scaling=scaling)


@pytest.mark.parametrize("rope_type", [None, "", "su", "mrope", "proportional", 3, ["yarn"]])
def test_an_unknown_type_is_refused_with_the_known_ones(rope_type: object) -> None:
    with pytest.raises(ProfileError, match="default, linear, dynamic, yarn, llama3, longrope") as refused:
        MODEL.rule(scaling={"rope_type": rope_type, "factor": 2})
    assert refused.value.field == "scaling.rope_type"


WRONG: list[tuple[str, str, Any]] = [
    *[
        (name, "factor", v)
        for name in SCALINGS
        for v in (0.99, 0, -1, True, "2", NAN, INFINITY, [2], 10**400)
    ],
    *[("yarn", "original_max_position_embeddings", v) for v in (0, -1, 2.0, "8", True, 2**31)],
    *[("yarn", name, 0) for name in ("attention_factor", "beta_fast", "beta_slow", "mscale")],
    ("yarn", "truncate", 1),
    ("yarn", "beta_fast", 0.5),
    ("llama3", "low_freq_factor", 0),
    ("llama3", "high_freq_factor", 1.0),
    ("longrope", "short_factor", 1.0),
    ("longrope", "long_factor", [1.0] * (PLANES - 1)),
    ("longrope", "long_factor", []),
]


@pytest.mark.parametrize(("name", "parameter", "value"), WRONG)
def test_a_parameter_out_of_range_is_named(name: str, parameter: str, value: Any) -> None:
    with pytest.raises(ProfileError) as refused:
        MODEL.rule(scaling=SCALINGS[name] | {parameter: value})
    assert refused.value.field == f"scaling.{parameter}"
    assert refused.value.reason


@pytest.mark.parametrize("value", [0, -1.0, True, None, "1", NAN])
def test_a_bad_entry_of_a_list_is_named(value: Any) -> None:
    with pytest.raises(ProfileError) as refused:
        MODEL.rule(scaling=SCALINGS["longrope"] | {"long_factor": [*LONG[:5], value, *LONG[6:]]})
    assert refused.value.field == "scaling.long_factor[5]"


@pytest.mark.parametrize(
    ("name", "parameter"),
    [
        *[(name, "factor") for name in ("linear", "dynamic", "yarn", "llama3")],
        ("llama3", "low_freq_factor"),
        ("llama3", "high_freq_factor"),
        ("longrope", "short_factor"),
        ("longrope", "long_factor"),
    ],
)
@pytest.mark.parametrize("absent", [True, False])
def test_a_missing_parameter_is_named(name: str, parameter: str, absent: bool) -> None:
    scaling = SCALINGS[name] | {parameter: None}
    if absent:
        del scaling[parameter]
    with pytest.raises(ProfileError, match="is missing") as refused:
        MODEL.rule(scaling=scaling)
    assert refused.value.field == f"scaling.{parameter}"


@pytest.mark.parametrize("given", ["mscale", "mscale_all_dim"])
def test_half_an_mscale_is_refused(given: str) -> None:
    with pytest.raises(ProfileError, match="mscale needs both"):
        MODEL.rule(scaling=SCALINGS["yarn"] | {given: 1.0})


@pytest.mark.parametrize("name", ["linear", "dynamic", "default"])
def test_a_parameter_of_another_type_is_refused_with_the_known_ones(name: str) -> None:
    scaling = SCALINGS.get(name, {"rope_type": "default"}) | {"beta_fast": 32}
    with pytest.raises(ProfileError, match=f"is unknown to {name}; known are rope_type") as refused:
        MODEL.rule(scaling=scaling)
    assert refused.value.field == "scaling.beta_fast"


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("rope_theta", "must be given as base"),
        ("type", "must be given as rope_type"),
        ("partial_rotary_factor", "is the model's own"),
    ],
)
def test_what_belongs_elsewhere_says_where(name: str, reason: str) -> None:
    with pytest.raises(ProfileError, match=reason) as refused:
        MODEL.rule(scaling=SCALINGS["yarn"] | {name: 1.0})
    assert refused.value.field == f"scaling.{name}"


@pytest.mark.parametrize(
    ("base", "scaling", "field"),
    [
        (None, {"rope_type": "linear", "factor": 1e300}, "scaling"),
        (None, {"rope_type": "dynamic", "factor": 1e30}, "scaling"),
        (None, SCALINGS["longrope"] | {"original_max_position_embeddings": 1}, "scaling"),
    ],
)
def test_a_rule_without_usable_frequencies_is_refused_at_once(
    base: float | None, scaling: dict[str, Any], field: str
) -> None:
    with pytest.raises(ProfileError, match="gives no usable frequencies") as refused:
        MODEL.rule(base, scaling)
    assert refused.value.field == field


# --- use ---


def test_a_description_can_be_given_back() -> None:
    for scaling in SCALINGS.values():
        rule = MODEL.rule(20_000, scaling)
        described = json.loads(json.dumps(rule.describe()))
        assert described["window"] == rule.window
        assert MODEL.rule(described["base"], described["scaling"]) == rule


def test_a_profile_is_computed_once_for_all_lengths_that_share_it() -> None:
    rule = MODEL.rule(scaling=SCALINGS["yarn"])
    assert rule.profile(10) is rule.profile(5000)
    longrope = MODEL.rule(scaling=SCALINGS["longrope"])
    assert longrope.profile(10) is longrope.profile(NATIVE)
    assert longrope.profile(NATIVE + 1) is longrope.profile(4 * NATIVE)


@pytest.mark.parametrize(
    "numbers",
    [
        {"attention_factor": 1e19},
        {"attention_factor": 1e-9},
        {"mscale": 1e30, "mscale_all_dim": 0.001},
    ],
)
def test_a_rule_whose_keys_would_overflow_is_refused(numbers: dict[str, float]) -> None:
    with pytest.raises(ProfileError, match=r"must lie between 0\.01 and 100") as refused:
        MODEL.rule(scaling={"rope_type": "yarn", "factor": 2.0, **numbers})
    assert refused.value.field == "scaling"
