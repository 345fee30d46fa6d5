"""Phases: exact angles at any position, both pairings, partial width, one attention factor."""

import dataclasses
import math

import mpmath
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from positional.phases import rotate, rotation_rows
from positional.profile import Pairing, Profile

PAIRINGS = pytest.mark.parametrize("pairing", ["half", "interleaved"])


def rows_at(position: float, profile: Profile, dtype: torch.dtype = torch.float64) -> torch.Tensor:
    positions = torch.full((1, profile.planes), position, dtype=torch.float64)
    return rotation_rows(positions, profile, dtype)


def as_complex(turned: torch.Tensor, pairing: Pairing) -> torch.Tensor:
    """Each plane's pair as one complex number: complex [..., planes]."""
    if pairing == "half":
        return torch.complex(*turned.chunk(2, dim=-1))
    return torch.complex(turned[..., 0::2], turned[..., 1::2])


@pytest.mark.parametrize("position", [12345.5, 1_048_575.0])
@pytest.mark.parametrize("base", [1e4, 5e5, 1e7])
def test_every_plane_keeps_its_phase(position: float, base: float) -> None:
    profile = Profile.rope(base, 128)
    cos, sin = rows_at(position, profile)[0].chunk(2)
    with mpmath.workdps(50):
        angles = [
            mpmath.mpf(position) * mpmath.power(mpmath.mpf(base), mpmath.mpf(-2 * m) / 128) for m in range(64)
        ]
        exact_cos = torch.tensor([float(mpmath.cos(a)) for a in angles], dtype=torch.float64)
        exact_sin = torch.tensor([float(mpmath.sin(a)) for a in angles], dtype=torch.float64)
    # The sine of the difference of the two angles.
    assert (sin * exact_cos - cos * exact_sin).abs().max() < 1e-6
    assert (cos * exact_cos + sin * exact_sin).min() > 0.5


@pytest.mark.parametrize("position", [12345.5, 1_048_575.0])
def test_rows_of_a_narrow_dtype_are_exact_rows_rounded_once(position: float) -> None:
    profile = Profile.rope(1e4, 64)
    assert torch.equal(
        rows_at(position, profile, torch.bfloat16), rows_at(position, profile).to(torch.bfloat16)
    )


def test_a_row_holds_cosines_then_sines_of_each_planes_own_position() -> None:
    profile = Profile.rope(1e4, 4)
    row = rotation_rows(torch.tensor([[3.0, 5.0]], dtype=torch.float64), profile, torch.float64)
    expected = [math.cos(3), math.cos(0.05), math.sin(3), math.sin(0.05)]
    assert row.shape == (1, 4)
    assert row[0].tolist() == pytest.approx(expected, abs=1e-15)


@PAIRINGS
def test_rotation_is_multiplication_by_a_complex_phase(pairing: Pairing) -> None:
    profile = Profile.rope(1e4, 16, pairing)
    positions = torch.rand(5, 8, dtype=torch.float64) * 1000
    vectors = torch.randn(5, 3, 16, dtype=torch.float64)
    phases = torch.exp(1j * positions * profile.inverse_frequencies)[:, None]
    rotated = rotate(vectors, rotation_rows(positions, profile, torch.float64), pairing)
    assert torch.allclose(as_complex(rotated, pairing), as_complex(vectors, pairing) * phases, atol=1e-12)


@PAIRINGS
@pytest.mark.parametrize("heads", [(), (3,), (2, 3)])
def test_dimensions_beyond_the_rotary_width_are_untouched(pairing: Pairing, heads: tuple[int, ...]) -> None:
    profile = Profile.rope(1e4, 8, pairing)
    vectors = torch.randn(1, *heads, 20, dtype=torch.float64)
    rotated = rotate(vectors, rows_at(17, profile), pairing)
    assert rotated.shape == vectors.shape
    assert torch.equal(rotated[..., 8:], vectors[..., 8:])
    alone = rotate(vectors[..., :8], rows_at(17, profile), pairing)
    assert torch.equal(rotated[..., :8], alone)
    assert not torch.allclose(alone, vectors[..., :8])


@PAIRINGS
def test_the_first_position_rotates_nothing(pairing: Pairing) -> None:
    vectors = torch.randn(1, 4, 12)
    assert torch.equal(rotate(vectors, rows_at(0, Profile.rope(1e4, 8), torch.float32), pairing), vectors)


@PAIRINGS
@given(
    first=st.integers(0, 100_000),
    second=st.integers(0, 100_000),
    shift=st.floats(0, 100_000),
    seed=st.integers(0, 99),
)
def test_scores_depend_on_the_distance_alone(
    pairing: Pairing, first: int, second: int, shift: float, seed: int
) -> None:
    profile = Profile.rope(1e4, 16)
    query, key = torch.randn(2, 1, 16, dtype=torch.float64, generator=torch.Generator().manual_seed(seed))

    def score(query_position: float, key_position: float) -> float:
        q = rotate(query, rows_at(query_position, profile), pairing)
        k = rotate(key, rows_at(key_position, profile), pairing)
        return float((q * k).sum())

    assert score(first, second) == pytest.approx(score(first + shift, second + shift), abs=1e-8)


@PAIRINGS
def test_the_attention_factor_scales_a_rotated_key_once(pairing: Pairing) -> None:
    factor = 0.1 * math.log(16) + 1
    profile = dataclasses.replace(Profile.rope(1e4, 16), attention_factor=factor)
    key = torch.randn(1, 2, 16, dtype=torch.float64)
    rotated = rotate(key, rows_at(1234.5, profile), pairing)
    assert torch.allclose(rotated.norm(dim=-1), factor * key.norm(dim=-1), rtol=1e-12)


def test_yarn_of_factor_16_scales_a_rotated_key_by_its_own_factor() -> None:
    from transformers import LlamaConfig

    config = LlamaConfig(
        head_dim=32,
        rope_parameters={
            "rope_type": "yarn",
            "rope_theta": 1e4,
            "factor": 16.0,
            "original_max_position_embeddings": 2048,
        },
    )
    key = torch.randn(1, 32, dtype=torch.float64)
    rotated = rotate(key, rows_at(30_000, Profile.from_config(config)), "half")
    assert float(rotated.norm() / key.norm()) == pytest.approx(0.1 * math.log(16) + 1, rel=1e-12)


def test_a_scaled_key_turned_on_equals_a_fresh_one_by_its_own_frequencies_alone() -> None:
    """LMCache#242: plain frequencies turned scaled keys."""
    from transformers import LlamaConfig

    rule = {
        "rope_type": "llama3",
        "rope_theta": 1e4,
        "factor": 8.0,
        "low_freq_factor": 1.0,
        "high_freq_factor": 4.0,
        "original_max_position_embeddings": 256,
    }
    scaled = Profile.from_config(LlamaConfig(head_dim=32, rope_parameters=rule))
    key = torch.randn(1, 32, dtype=torch.float64)
    early, fresh = (rotate(key, rows_at(position, scaled), "half") for position in (10, 510))
    assert torch.allclose(rotate(early, rows_at(500, scaled), "half"), fresh, rtol=0, atol=1e-12)
    assert not torch.allclose(rotate(early, rows_at(500, Profile.rope(1e4, 32)), "half"), fresh, atol=0.1)
