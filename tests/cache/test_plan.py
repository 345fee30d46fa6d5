import json
from dataclasses import replace
from typing import Any

import pytest
import torch

from cache.bias_config import Bias
from cache.declaration import Declaration, QueryScale
from cache.measurement import Measured, Rotation
from cache.plan import Layer, LayerPlan, Span, plan_layer
from cache.unsupported import UnsupportedModelError
from positional.phases import rotate, rotation_rows
from positional.profile import Profile

GLOBAL, LOCAL = Profile.rope(1_000_000.0, 8), Profile.rope(10_000.0, 8)
SCALE = QueryScale(floor=40, strength=0.3, first=1)
PLAN = LayerPlan(
    (
        Layer(0, "model.layers.0.self_attn.attn", 48, LOCAL, "standard"),
        Layer(1, "model.layers.1.self_attn.attn", None, GLOBAL, "broad"),
        Layer(2, "model.layers.2.self_attn.attn", 64, LOCAL, "standard", chunked=True),
        Layer(3, "model.layers.3.self_attn.attn", None, GLOBAL, "sharp"),
        Layer(4, "model.layers.4.self_attn.attn", None, None, "standard", query_scale=SCALE),
    ),
    GLOBAL,
)
POSITIONS = (0, 1, 2, 61, 100, 255)


def rotation(profile: Profile, width: int = 8) -> Rotation:
    positions = torch.tensor(POSITIONS)
    before = torch.randn(len(positions), 2, width, dtype=torch.float64)
    places = positions.double()[:, None].expand(-1, profile.planes)
    rows = rotation_rows(places, profile, torch.float64)
    after = rotate(before, rows, profile.pairing)
    return Rotation(positions, before, after, profile.rotary_dim, torch.float32)


def does(profile: Profile | None, scale: QueryScale | None = None, **more: Any) -> Measured:
    found = Measured(
        rotation=None if profile is None else rotation(profile),
        motion=0.0 if profile is None else 1.2,
        drift=0.0,
        factors=tuple((p, 1.0 if scale is None else scale.at(p)) for p in POSITIONS),
        residue=0.0,
        bare=True,
    )
    return replace(found, **more)


def planned(declared: Declaration, measured: Measured, span: Span = (None, False), **more: Any) -> Layer:
    given = {"lower": True, "dtype": torch.float32, **more}
    return plan_layer(3, "model.layers.3.self_attn.attn", span, declared, measured, **given)


def test_only_mapped_layers_are_modulated() -> None:
    assert [layer.index for layer in PLAN.modulated] == [1, 3]


def test_only_layers_of_the_main_profile_follow_a_requests() -> None:
    assert [layer.index for layer in PLAN.mapped] == [1, 3]
    assert LayerPlan(PLAN.layers, None).mapped == ()


def test_blocks_are_told_apart_by_what_moves_some_layer() -> None:
    assert PLAN.identity == ("tokens", "rope", "qgpm")
    windowed = LayerPlan(PLAN.layers[:1], LOCAL)
    assert windowed.identity == ("tokens", "rope")
    assert LayerPlan(PLAN.layers[4:], None).identity == ("tokens",)


def test_a_layer_knows_the_block_that_owns_its_rotary_module() -> None:
    assert PLAN.layers[1].owner == "model.layers.1.self_attn"


def test_a_plan_is_described_in_json() -> None:
    described = json.loads(json.dumps(PLAN.describe()))
    layers = described["layers"]
    assert [layer["span"] for layer in layers] == [48, "full", 64, "full", "full"]
    assert [layer["chunked"] for layer in layers] == [False, False, True, False, False]
    assert [layer["map"] for layer in layers] == ["standard", "broad", "standard", "sharp", "standard"]
    assert [layer["rotary"] for layer in layers] == [True, True, True, True, False]
    assert [layer["rotary_dim"] for layer in layers] == [8, 8, 8, 8, 0]
    assert [layer["query_scale"] for layer in layers[3:]] == [
        None,
        {"floor": 40, "strength": 0.3, "first": 1},
    ]
    assert len(described["profiles"]) == 2
    bases = [described["profiles"][layer["profile"]]["base"] for layer in layers[:4]]
    assert bases == [10_000.0, 1_000_000.0, 10_000.0, 1_000_000.0]
    assert layers[4]["profile"] is None
    assert [layer["cache"]["relative"] for layer in layers] == ["exact"] * 4 + ["no"]
    assert described["identity"] == ["tokens", "rope", "qgpm"]


def test_a_global_rotary_layer_takes_the_map_of_its_half() -> None:
    assert planned(Declaration(GLOBAL), does(GLOBAL), lower=True).map == "broad"
    assert planned(Declaration(GLOBAL), does(GLOBAL), lower=False).map == "sharp"


def test_a_windowed_layer_stays_standard() -> None:
    layer = planned(Declaration(LOCAL, window=48), does(LOCAL), (48, False))
    assert (layer.window, layer.map, layer.profile) == (48, "standard", LOCAL)


def test_a_layer_without_rotation_has_neither_map_nor_profile() -> None:
    layer = planned(Declaration(None, query_scale=SCALE), does(None, SCALE))
    assert (layer.map, layer.profile, layer.query_scale) == ("standard", None, SCALE)


def test_a_pairing_that_the_config_leaves_open_is_measured() -> None:
    interleaved = replace(GLOBAL, pairing="interleaved")
    layer = planned(Declaration(GLOBAL), does(interleaved))
    assert layer.profile == interleaved


CONTRADICTIONS: dict[str, tuple[Declaration, Measured, Span, str]] = {
    # transformers#43756, smollm#130: `no_rope_layers` read inverted.
    "rotates": (Declaration(None), does(GLOBAL), (None, False), "rotates its keys, and its config says"),
    "does not rotate": (Declaration(GLOBAL), does(None), (None, False), "does not rotate its keys"),
    "rotation thrown away": (
        Declaration(GLOBAL),
        does(GLOBAL, motion=0.0),
        (None, False),
        "does not rotate its keys",
    ),
    # vllm#11357, #11583: a missing window fell back to 4096 on global layers.
    "a window on a global layer": (
        Declaration(GLOBAL),
        does(GLOBAL),
        (4096, False),
        "attends to 4096 tokens, and its config says to all tokens",
    ),
    "another window": (
        Declaration(LOCAL, window=49),
        does(LOCAL),
        (48, False),
        "attends to 48 tokens, and its config says to 49 tokens",
    ),
    "a chunk for a window": (
        Declaration(LOCAL, window=64),
        does(LOCAL),
        (64, True),
        "attends inside chunks of 64 tokens, and its config says to 64 tokens",
    ),
    # vllm#29111, llama.cpp#14367: one kind's rule on the other's layers.
    "another base": (Declaration(LOCAL), does(GLOBAL), (None, False), "rotates by other angles"),
    "another pairing": (
        Declaration(GLOBAL, paired=True),
        does(replace(GLOBAL, pairing="interleaved")),
        (None, False),
        "rotates by other angles",
    ),
    "another attention factor": (
        Declaration(replace(GLOBAL, attention_factor=1.1)),
        does(GLOBAL),
        (None, False),
        "rotates by other angles than its config declares",
    ),
    "another width": (
        Declaration(Profile.rope(1_000_000.0, 6)),
        does(GLOBAL),
        (None, False),
        "rotates 8 dimensions, its config 6",
    ),
    "keys that follow positions otherwise": (
        Declaration(GLOBAL),
        does(GLOBAL, drift=0.01),
        (None, False),
        "its keys depend on positions by other than its rotary module",
    ),
    # vllm#16417: layers without rotation whose query scale still depends on positions.
    "a query scale that is not declared": (
        Declaration(None),
        does(None, SCALE),
        (None, False),
        "multiplies the queries of position 61 by 1.208, and its config says by 1",
    ),
    "a declared query scale that is not there": (
        Declaration(None, query_scale=SCALE),
        does(None),
        (None, False),
        "multiplies the queries of position 61 by 1, and its config says by 1.208",
    ),
    "queries changed by more": (
        Declaration(GLOBAL),
        does(GLOBAL, residue=0.01),
        (None, False),
        "its queries depend on positions by more than a factor",
    ),
    "not a number": (Declaration(None), does(None, drift=float("nan")), (None, False), "depend on positions"),
}


@pytest.mark.parametrize("kind", CONTRADICTIONS)
def test_a_layer_that_does_other_than_its_config_says_is_refused_and_named(kind: str) -> None:
    declared, measured, span, message = CONTRADICTIONS[kind]
    with pytest.raises(UnsupportedModelError, match=r"^layer 3") as refused:
        planned(declared, measured, span)
    assert message in str(refused.value)


def test_a_layer_with_a_bias_stays_at_its_places_and_follows_a_requests_rule() -> None:
    declared = Declaration(GLOBAL, paired=True, bias=Bias(kind="alibi"))
    layer = planned(declared, does(GLOBAL))
    assert (layer.map, layer.profile, layer.describe()["bias"]) == ("standard", GLOBAL, "alibi")


def test_a_learned_rotation_has_no_profile_and_must_be_what_its_weights_say() -> None:
    learned = Declaration(None, paired=True, learned="spectrum")
    turns = Measured(None, motion=1.2, drift=0.0, factors=((0, 1.0),), residue=0.0, bare=True, learned=1e-6)
    layer = planned(learned, turns)
    assert (layer.map, layer.profile, layer.describe()["rotary"]) == ("standard", None, True)
    with pytest.raises(UnsupportedModelError, match="layer 3 turns by other than its weights say"):
        planned(learned, replace(turns, learned=0.2))
    with pytest.raises(UnsupportedModelError, match="layer 3 does not rotate its keys"):
        planned(learned, replace(turns, motion=0.0))


def test_weights_may_turn_less_than_rounding_would_hide_of_a_rule() -> None:
    slow = Measured(None, motion=1e-3, drift=0.0, factors=((0, 1.0),), residue=0.0, bare=True, learned=1e-6)
    for learned in ("spectrum", "plane"):
        declared = Declaration(None, paired=True, learned=learned)  # type: ignore[arg-type]
        assert planned(declared, slow, dtype=torch.bfloat16).learned == learned
    with pytest.raises(UnsupportedModelError, match="layer 3 does not rotate its keys"):
        planned(Declaration(GLOBAL), replace(does(GLOBAL), motion=1e-3), dtype=torch.bfloat16)
