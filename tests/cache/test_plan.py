import json

from cache.plan import Layer, LayerPlan
from positional.profile import Profile

GLOBAL, LOCAL = Profile.rope(1_000_000.0, 8), Profile.rope(10_000.0, 8)
PLAN = LayerPlan(
    (
        Layer(0, "model.layers.0.self_attn.attn", 48, LOCAL, "standard"),
        Layer(1, "model.layers.1.self_attn.attn", None, GLOBAL, "broad"),
        Layer(2, "model.layers.2.self_attn.attn", 48, LOCAL, "standard"),
        Layer(3, "model.layers.3.self_attn.attn", None, GLOBAL, "sharp"),
    ),
    GLOBAL,
)


def test_only_mapped_layers_are_modulated() -> None:
    assert [layer.index for layer in PLAN.modulated] == [1, 3]


def test_a_layer_knows_the_block_that_owns_its_rotary_module() -> None:
    assert PLAN.layers[1].owner == "model.layers.1.self_attn"


def test_a_plan_is_described_in_json() -> None:
    described = json.loads(json.dumps(PLAN.describe()))
    assert [layer["span"] for layer in described["layers"]] == [48, "full", 48, "full"]
    assert [layer["map"] for layer in described["layers"]] == ["standard", "broad", "standard", "sharp"]
    assert len(described["profiles"]) == 2
    bases = [described["profiles"][layer["profile"]]["base"] for layer in described["layers"]]
    assert bases == [10_000.0, 1_000_000.0, 10_000.0, 1_000_000.0]
