"""How layers tell that they meet the cache."""

import pytest

from cache.bias_config import Bias
from cache.layer_contract import layer_contract
from positional.profile import Profile

ROPE = Profile.rope(10_000.0, 8)
DYNAMIC = Profile(10_000.0, 8, rope_type="dynamic", frequencies=ROPE.frequencies)


def test_a_layer_without_positions_caches_the_key() -> None:
    assert layer_contract(None, None, None) == {
        "rule": "fixed",
        "relative": "exact",
        "cached": "the key",
        "extra_dimensions": 0,
    }


def test_a_rule_that_hangs_on_the_length_says_so_whatever_basis_it_turns_in() -> None:
    assert layer_contract(DYNAMIC, None, None)["rule"] == "grows"
    assert layer_contract(DYNAMIC, "basis", None)["rule"] == "grows"
    assert layer_contract(ROPE, "basis", None)["rule"] == "fixed"


def test_scores_that_a_querys_position_scales_are_not_relative() -> None:
    assert layer_contract(None, None, None, scaled=True)["relative"] == "no"
    assert layer_contract(None, None, Bias(kind="forget"), scaled=True)["relative"] == "no"


def test_a_learned_plane_is_cached_as_a_turned_key() -> None:
    told = layer_contract(None, "plane", None)
    assert (told["cached"], told["extra_dimensions"]) == ("the key, turned to its position", 0)


@pytest.mark.parametrize(
    ("bias", "extra", "relative"),
    [
        (Bias(kind="alibi"), 0, "exact"),
        (Bias(kind="gated_slope", gates=("query",)), 4, "exact"),
        (Bias(kind="gated_slope", gates=("key",)), 8, "exact"),
        (Bias(kind="gated_slope", gates=("query", "key")), 12, "exact"),
        (Bias(kind="forget"), 3, "phase"),
    ],
)
def test_a_bias_adds_numbers_to_the_turned_key(bias: Bias, extra: int, relative: str) -> None:
    told = layer_contract(ROPE, None, bias)
    assert (told["rule"], told["extra_dimensions"], told["relative"]) == ("fixed", extra, relative)
    assert told["cached"].startswith("the turned key")
