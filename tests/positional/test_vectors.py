"""Agreement with values computed independently: see vectors/README.md."""

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from transformers import LlamaConfig

from positional.coordinates import MapName
from positional.profile import Profile
from positional.qgpm import QGPMConfig, build_coordinates

VECTORS = Path(__file__).parent / "vectors"
UNSCALED = json.loads((VECTORS / "qgpm.json").read_text())
SCALED = json.loads((VECTORS / "scaled.json").read_text())
SCALED_CASES = [pytest.param(case, id=case["rope_parameters"]["rope_type"]) for case in SCALED]
CASES = [pytest.param(case, id=f"unscaled-{i}") for i, case in enumerate(UNSCALED)] + SCALED_CASES


def profile_of(case: dict[str, Any]) -> Profile:
    if "theta" in case:
        return Profile.rope(case["theta"], case["rotary_dim"])
    config = LlamaConfig(
        hidden_size=2 * case["head_dim"],
        num_attention_heads=2,
        head_dim=case["head_dim"],
        max_position_embeddings=case["max_position_embeddings"],
        rope_parameters=dict(case["rope_parameters"]),
    )
    return Profile.from_config(config)


def close(found: object, expected: object) -> bool:
    found, expected = (torch.as_tensor(x, dtype=torch.float64) for x in (found, expected))
    return found.shape == expected.shape and bool((found - expected).abs().max() <= 1e-8)


@pytest.mark.parametrize("case", SCALED_CASES)
def test_scaled_frequencies_agree(case: dict[str, Any]) -> None:
    profile = profile_of(case)
    assert close(profile.inverse_frequencies, case["inverse_frequencies"])
    assert profile.attention_factor == pytest.approx(case["attention_factor"], abs=1e-8)


@pytest.mark.parametrize("map_name", ["broad", "sharp"])
@pytest.mark.parametrize("case", CASES)
def test_scores_and_positions_agree(case: dict[str, Any], map_name: MapName) -> None:
    coordinates = build_coordinates(
        case["z"], case["spans"], case["num_tokens"], profile_of(case), QGPMConfig(**case["config"])
    )
    expected = case["expect"][map_name]
    assert close(coordinates.scores(map_name), expected["sentence_scores"])
    assert coordinates.protected_until(map_name) == expected["protected_until"]
    positions = expected["positions"]
    assert close(coordinates.positions(map_name, range(len(positions))), positions)


@pytest.mark.parametrize("case", CASES)
def test_the_protected_prefix_is_the_shorter_of_the_two(case: dict[str, Any]) -> None:
    coordinates = build_coordinates(
        case["z"], case["spans"], case["num_tokens"], profile_of(case), QGPMConfig(**case["config"])
    )
    ends = [case["expect"][name]["protected_until"] for name in ("broad", "sharp")]
    assert coordinates.protected_prefix == min(ends)
