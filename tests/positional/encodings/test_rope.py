"""Rotary positions under the contract, by every rule and pairing."""

import math
from typing import Any, get_args

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from transformers import LlamaConfig
from transformers.models.glm.modeling_glm import apply_rotary_pos_emb as interleaved_apply
from transformers.models.llama.modeling_llama import apply_rotary_pos_emb as half_apply

from positional.encodings.contract import CacheShape, EncodingError
from positional.encodings.rope import Rope, ntk_base
from positional.phases import rotation_rows
from positional.profile import Pairing, Profile
from positional.rule import ModelRope

WIDTH, BASE, NATIVE = 16, 10_000.0, 512
PAIRINGS = pytest.mark.parametrize("pairing", get_args(Pairing))
SCALINGS: dict[str, dict[str, Any]] = {
    "default": {"rope_type": "default"},
    "linear": {"rope_type": "linear", "factor": 4.0},
    "dynamic": {"rope_type": "dynamic", "factor": 4.0},
    "yarn": {"rope_type": "yarn", "factor": 4.0},
    "llama3": {"rope_type": "llama3", "factor": 4.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0},
    "longrope": {
        "rope_type": "longrope",
        "factor": 4.0,
        "short_factor": [1.0] * (WIDTH // 2),
        "long_factor": [1.0 + plane for plane in range(WIDTH // 2)],
    },
}
POSITIONS = st.integers(0, 1_000_000)


def model(pairing: Pairing = "half") -> ModelRope:
    config = LlamaConfig(
        hidden_size=2 * WIDTH,
        num_attention_heads=2,
        max_position_embeddings=NATIVE,
        rope_parameters={"rope_type": "default", "rope_theta": BASE},
    )
    return ModelRope.from_config(config, pairing=pairing)


def scaled(name: str, pairing: Pairing = "half", length: int = 4 * NATIVE) -> Rope:
    return Rope(model(pairing).rule(scaling=SCALINGS[name]).profile(length), WIDTH)


def content(seed: int, width: int = WIDTH) -> torch.Tensor:
    return torch.randn(2, width, dtype=torch.float64, generator=torch.Generator().manual_seed(seed))


def at(*positions: int) -> torch.Tensor:
    return torch.tensor(positions)


@PAIRINGS
@pytest.mark.parametrize("name", SCALINGS)
@given(seed=st.integers(0, 99), i=POSITIONS, j=POSITIONS, shift=POSITIONS)
def test_a_score_depends_on_the_displacement_alone(
    name: str, pairing: Pairing, seed: int, i: int, j: int, shift: int
) -> None:
    rope, (query, key) = scaled(name, pairing), content(seed)
    scores = rope.score(query, key, at(i, i + shift), at(j, j + shift))
    assert scores[0] == pytest.approx(float(scores[1]), abs=1e-7)
    assert rope.contract.relative == "exact"


@PAIRINGS
@given(seed=st.integers(0, 99), i=POSITIONS, j=POSITIONS)
def test_a_score_is_a_sum_of_turned_pairs(pairing: Pairing, seed: int, i: int, j: int) -> None:
    """By complex numbers, whose pairing is written out here."""
    rope, vectors = scaled("default", pairing), content(seed)
    pairs = vectors.reshape(2, 2, -1).mT if pairing == "half" else vectors.reshape(2, -1, 2)
    query, key = torch.view_as_complex(pairs.contiguous())
    angles = (i - j) * rope.profile.inverse_frequencies
    turned = query * key.conj() * torch.polar(torch.ones_like(angles), angles)
    assert rope.score(*vectors, at(i), at(j)).item() == pytest.approx(turned.real.sum().item(), abs=1e-7)


@PAIRINGS
@given(seed=st.integers(0, 99), first=POSITIONS, second=POSITIONS)
def test_turns_add_up_and_keep_the_norm(pairing: Pairing, seed: int, first: int, second: int) -> None:
    rope, vectors = scaled("default", pairing), content(seed)
    twice = rope.rotate(rope.rotate(vectors, at(first)), at(second))
    torch.testing.assert_close(twice, rope.rotate(vectors, at(first + second)), rtol=0, atol=1e-8)
    torch.testing.assert_close(twice.norm(dim=-1), vectors.norm(dim=-1), rtol=1e-12, atol=0)


@pytest.mark.parametrize(("pairing", "apply"), [("half", half_apply), ("interleaved", interleaved_apply)])
def test_vectors_turn_as_transformers_turns_them(pairing: Pairing, apply: Any) -> None:
    rope, places = scaled("yarn", pairing), torch.arange(20)
    vectors = torch.randn(20, 3, WIDTH, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    cos, sin = rotation_rows(places[:, None], rope.profile, torch.float64).chunk(2, dim=-1)
    # Both take each cosine twice over, and glm's pairs neighbours.
    doubled = (torch.cat((rows, rows), dim=-1)[None] for rows in (cos, sin))
    heads = vectors.transpose(0, 1)[None]
    theirs = apply(heads, heads, *doubled)[0][0].transpose(0, 1)
    torch.testing.assert_close(rope.rotate(vectors, places[:, None]), theirs, rtol=0, atol=1e-12)


def test_the_other_pairing_is_another_encoding() -> None:
    query, key = content(0)
    half, interleaved = (scaled("default", p).score(query, key, at(9), at(2)) for p in get_args(Pairing))
    assert abs(half - interleaved) > 0.01


@given(seed=st.integers(0, 99), i=POSITIONS, j=POSITIONS)
def test_a_partial_turn_leaves_the_last_features_alone(seed: int, i: int, j: int) -> None:
    rope = Rope(Profile.rope(BASE, WIDTH // 2), WIDTH)
    query, key = content(seed)
    turned = rope.rotate(query, at(i))
    assert torch.equal(turned[0, WIDTH // 2 :], query[WIDTH // 2 :])
    inner = Rope(rope.profile, WIDTH // 2).score(query[: WIDTH // 2], key[: WIDTH // 2], at(i), at(j))
    expected = inner + query[WIDTH // 2 :] @ key[WIDTH // 2 :]
    torch.testing.assert_close(rope.score(query, key, at(i), at(j)), expected, rtol=0, atol=1e-12)


def test_a_decoupled_turn_leaves_the_first_features_alone() -> None:
    profile = Profile.rope(BASE, 4, "interleaved")
    rope, (query, _) = Rope(profile, WIDTH, decoupled=True), content(1)
    turned = rope.rotate(query, at(7))[0]
    assert torch.equal(turned[:-4], query[:-4])
    assert torch.equal(turned[-4:], Rope(profile, 4).rotate(query[-4:], at(7))[0])


def test_a_decoupled_key_is_cached_beside_the_latent_once_for_all_heads() -> None:
    contract = Rope(Profile.rope(BASE, 64), 192, decoupled=True).contract
    # DeepSeek-V2's 512 + 64 numbers a token and layer.
    assert contract.bytes_per_token(CacheShape(1, 512, 0, 2)) == 1152


@pytest.mark.parametrize("name", SCALINGS)
def test_keys_that_stay_valid_are_those_whose_frequencies_do(name: str) -> None:
    """Ninefold growth within what the rule covers, from a length that it does not scale."""
    short, long = scaled(name, length=NATIVE // 3), scaled(name, length=3 * NATIVE)
    fixed = short.profile.frequencies == long.profile.frequencies
    assert long.contract.cache_rule == ("fixed" if fixed else "grows")


def test_interpolation_shortens_every_step_by_its_factor() -> None:
    query, key = content(3)
    plain, interpolated = scaled("default"), scaled("linear")
    torch.testing.assert_close(
        interpolated.score(query, key, at(48), at(8)),
        plain.score(query, key, at(12), at(2)),
        rtol=0,
        atol=1e-6,
    )


@given(factor=st.floats(1, 100))
def test_the_ntk_base_slows_the_slowest_plane_by_the_factor_and_leaves_the_fastest(factor: float) -> None:
    plain = Profile.rope(BASE, WIDTH).frequencies
    slowed = Profile.rope(ntk_base(BASE, factor, WIDTH), WIDTH).frequencies
    assert slowed[0] == plain[0]
    assert plain[-1] / slowed[-1] == pytest.approx(factor)


def test_dynamic_ntk_is_the_ntk_base_of_its_length() -> None:
    # Its factor at a length n: s × n / native − (s − 1).
    length, factor = 3 * NATIVE, 4.0
    base = ntk_base(BASE, factor * length / NATIVE - (factor - 1), WIDTH)
    assert scaled("dynamic", length=length).profile.frequencies == pytest.approx(
        Profile.rope(base, WIDTH).frequencies, rel=1e-6
    )


def test_what_ntk_covers_is_its_factor_more() -> None:
    assert model().rule(base=ntk_base(BASE, 4, WIDTH)).window == pytest.approx(4 * NATIVE, abs=1)


def test_no_base_changes_a_single_plane() -> None:
    with pytest.raises(EncodingError, match="rotary_dim: must be above 2"):
        ntk_base(BASE, 4, 2)


def test_a_head_holds_what_is_turned() -> None:
    with pytest.raises(EncodingError, match="width: must hold 16 turned features"):
        Rope(Profile.rope(BASE, 16), 8)


def test_yarn_sharpens_scores_by_the_square_of_its_factor() -> None:
    query, key = content(4)
    score = scaled("yarn").score(query, key, at(5), at(5)).item()
    assert score == pytest.approx((0.1 * math.log(4) + 1) ** 2 * float(query @ key))
