"""Planes: the boundary plane of eq. 3 and its generalisation, and the gate of eq. 7."""

import math
from typing import Any

import pytest
import torch
from transformers import LlamaConfig

from positional.planes import boundary_plane, gate
from positional.profile import Profile

LENGTHS = [1.0, 2 * math.pi, 40.0, 300.5, 4096.0, 1e6, 1e9]
SCALED: dict[str, dict[str, Any]] = {
    "linear": {"factor": 4.0},
    "dynamic": {"factor": 2.0},
    "yarn": {"factor": 16.0, "original_max_position_embeddings": 2048},
    "llama3": {
        "factor": 8.0,
        "low_freq_factor": 1.0,
        "high_freq_factor": 4.0,
        "original_max_position_embeddings": 512,
    },
    "longrope": {
        "original_max_position_embeddings": 2048,
        "short_factor": [1.0] * 32,
        "long_factor": [1.0 + m / 4 for m in range(32)],
    },
}


def scaled(rope_type: str) -> Profile:
    rule = {"rope_type": rope_type, "rope_theta": 1e4, **SCALED[rope_type]}
    config = LlamaConfig(head_dim=64, max_position_embeddings=2048, rope_parameters=rule)
    return Profile.from_config(config, max_length=8192)


def wavelengths(profile: Profile) -> list[float]:
    return (2 * math.pi / profile.inverse_frequencies).tolist()


@pytest.mark.parametrize("length", LENGTHS)
@pytest.mark.parametrize(("base", "width"), [(1e4, 2), (1e4, 64), (5e5, 128), (1e6, 80)])
def test_unscaled_it_is_equation_3(base: float, width: int, length: float) -> None:
    expected = width / 2 * math.log(length / (2 * math.pi)) / math.log(base)
    assert boundary_plane(Profile.rope(base, width), length) == pytest.approx(expected, abs=1e-9)


@pytest.mark.parametrize("rope_type", SCALED)
def test_a_planes_own_wavelength_is_its_boundary(rope_type: str) -> None:
    profile = scaled(rope_type)
    found = [boundary_plane(profile, length) for length in wavelengths(profile)]
    assert found == pytest.approx(list(range(profile.planes)), abs=1e-9)


@pytest.mark.parametrize("rope_type", SCALED)
def test_the_boundary_rises_with_the_anchor_without_jumps(rope_type: str) -> None:
    profile = scaled(rope_type)
    waves = wavelengths(profile)
    logs = torch.linspace(math.log(waves[0]) - 2, math.log(waves[-1]) + 2, 4000, dtype=torch.float64)
    steps = torch.tensor([boundary_plane(profile, math.exp(x)) for x in logs.tolist()]).diff()
    assert (steps > 0).all()
    assert steps.max() < 0.1


@pytest.mark.parametrize("rope_type", SCALED)
def test_beyond_the_planes_the_end_slopes_go_on(rope_type: str) -> None:
    profile = scaled(rope_type)
    waves = wavelengths(profile)
    before = waves[0] * (waves[0] / waves[1]) ** 2
    behind = waves[-1] * (waves[-1] / waves[-2]) ** 3
    assert boundary_plane(profile, before) == pytest.approx(-2, abs=1e-9)
    assert boundary_plane(profile, behind) == pytest.approx(profile.planes + 2, abs=1e-9)


def test_between_planes_the_wavelength_grows_geometrically() -> None:
    profile = scaled("yarn")
    waves = wavelengths(profile)
    assert boundary_plane(profile, math.sqrt(waves[20] * waves[21])) == pytest.approx(20.5, abs=1e-9)


def test_of_several_crossings_the_first_counts() -> None:
    profile = Profile(1e4, 8, frequencies=(1.0, 0.01, 0.1, 0.001))
    wave = 2 * math.pi * 10**1.5
    assert boundary_plane(profile, wave) == pytest.approx(0.75, abs=1e-12)


@pytest.mark.parametrize("width", [0.05, 0.5, 4.0])
def test_the_gate_is_a_sigmoid_around_the_boundary(width: float) -> None:
    profile = Profile.rope(1e4, 64)
    boundary = boundary_plane(profile, 300)
    expected = [1 / (1 + math.exp(-(m - boundary) / width)) for m in range(32)]
    found = gate(profile, 300, width)
    assert found.dtype == torch.float64
    assert found.tolist() == pytest.approx(expected, abs=1e-14)


@pytest.mark.parametrize("width", [5e-324, 1e-300, 1e300])
@pytest.mark.parametrize("length", [5e-324, 300.0, 1.7e308])
def test_the_gate_is_finite_at_extremes(length: float, width: float) -> None:
    found = gate(Profile.rope(1e4, 64), length, width)
    assert ((found >= 0) & (found <= 1)).all()
    assert (found.diff() >= 0).all()
