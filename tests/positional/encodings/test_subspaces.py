"""Multiplicative GRAPE of many planes: RoPE as the exact special case, learned bases and spectra, folding."""

from typing import get_args

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import nn

from positional.attention import Rotation, attend
from positional.encodings.contract import EncodingError
from positional.encodings.quarter_turn import quarter_turn
from positional.encodings.rank_two import RankTwo
from positional.encodings.subspaces import Subspaces
from positional.masks import causal
from positional.phases import rotate, rotation_rows
from positional.profile import Pairing, Profile, ProfileError
from tests.support.exponential import exponential

WIDTH, PLANES = 8, 4
PAIRINGS = pytest.mark.parametrize("pairing", get_args(Pairing))
SEEDS = st.integers(0, 10_000)
POSITIONS = st.floats(-300, 300)


def normal(seed: int, *shape: int) -> torch.Tensor:
    return torch.randn(shape, dtype=torch.float64, generator=torch.Generator().manual_seed(seed))


def skew(seed: int, *shape: int) -> torch.Tensor:
    raw = normal(seed, *shape, shape[-1])
    return raw - raw.mT


def learned(seed: int, *, basis_heads: int = 0, angle_heads: int = 0, planes: int = PLANES) -> Subspaces:
    basis = torch.linalg.matrix_exp(skew(seed, *[basis_heads][:basis_heads], WIDTH))
    return Subspaces(basis, normal(seed + 1, *[angle_heads][:angle_heads], planes))


def generator(of: Subspaces) -> torch.Tensor:
    """Σ θ_m B U_m J U_mᵀ Bᵀ, of one head."""
    blocks = torch.zeros(of.width, of.width, dtype=torch.float64)
    for plane, angle in enumerate(of.angles):
        blocks[2 * plane + 1, 2 * plane], blocks[2 * plane, 2 * plane + 1] = angle, -angle
    return of.basis @ blocks @ of.basis.T


def at(position: float) -> torch.Tensor:
    return torch.tensor(position, dtype=torch.float64)


def rope(vectors: torch.Tensor, positions: torch.Tensor, profile: Profile) -> torch.Tensor:
    """The library's own RoPE: `vectors` [tokens, …, width] at `positions` [tokens]."""
    rows = rotation_rows(positions[:, None].expand(-1, profile.planes), profile, vectors.dtype)
    return rotate(vectors, rows, profile.pairing)


@PAIRINGS
@given(
    seed=SEEDS,
    base=st.sampled_from([1e4, 5e5]),
    width=st.sampled_from([8, 11]),
    start=st.integers(0, 1_000_000),
)
def test_coordinate_planes_are_rope(pairing: Pairing, seed: int, base: float, width: int, start: int) -> None:
    profile, positions = Profile.rope(base, 8, pairing), start + torch.arange(3)
    vectors = normal(seed, 3, 2, width)
    turned = Subspaces.rope(profile, width).rotate(vectors, positions[:, None])
    torch.testing.assert_close(turned, rope(vectors, positions, profile), rtol=0, atol=1e-12)


@PAIRINGS
@given(seed=SEEDS, start=st.integers(0, 1000))
def test_rope_is_the_product_of_its_planes_in_any_order(pairing: Pairing, seed: int, start: int) -> None:
    profile, positions = Profile.rope(1e4, WIDTH, pairing), start + torch.arange(3)
    vectors, unit = normal(seed, 3, WIDTH), torch.eye(WIDTH, dtype=torch.float64)
    turned = vectors
    for plane in torch.randperm(PLANES, generator=torch.Generator().manual_seed(seed)).tolist():
        first = unit[plane if pairing == "half" else 2 * plane]
        turned = RankTwo.canonical(first, -profile.frequencies[plane], pairing).rotate(turned, positions)
    torch.testing.assert_close(turned, rope(vectors, positions, profile), rtol=0, atol=1e-12)


@PAIRINGS
def test_a_transposed_sign_or_a_swapped_pairing_is_not_rope(pairing: Pairing) -> None:
    profile, positions, vectors = Profile.rope(1e4, WIDTH, pairing), torch.arange(1, 4), normal(1, 3, WIDTH)
    expected = rope(vectors, positions, profile)
    other: Pairing = "half" if pairing == "interleaved" else "interleaved"
    right = Subspaces.rope(profile)
    for wrong in (
        Subspaces(right.basis, -right.angles),
        Subspaces(right.basis.T, right.angles)
        if pairing == "half"
        else Subspaces(right.basis, -right.angles),
        Subspaces.rope(Profile.rope(1e4, WIDTH, other)),
    ):
        assert float((wrong.rotate(vectors, positions) - expected).abs().max()) > 0.1


@given(SEEDS, POSITIONS, st.integers(1, PLANES))
def test_it_is_the_exponential_of_its_generator(seed: int, position: float, planes: int) -> None:
    grape, vector = learned(seed, planes=planes), normal(seed + 2, WIDTH)
    exact = exponential(position * generator(grape)) @ vector
    torch.testing.assert_close(grape.rotate(vector, at(position)), exact, rtol=0, atol=1e-11)


@given(SEEDS, POSITIONS, POSITIONS, st.sampled_from([0, 3]), st.sampled_from([0, 3]))
def test_it_is_a_group_of_turns(seed: int, s: float, t: float, basis_heads: int, angle_heads: int) -> None:
    grape = learned(seed, basis_heads=basis_heads, angle_heads=angle_heads)
    vectors = normal(seed + 2, 3, WIDTH)
    turned = grape.rotate(vectors, at(t))
    torch.testing.assert_close(turned.norm(dim=-1), vectors.norm(dim=-1), rtol=1e-13, atol=0)
    torch.testing.assert_close(
        grape.rotate(turned, at(s)), grape.rotate(vectors, at(s + t)), rtol=0, atol=1e-11
    )
    torch.testing.assert_close(grape.rotate(turned, at(-t)), vectors, rtol=0, atol=1e-13)


@given(SEEDS, POSITIONS, POSITIONS, POSITIONS, st.sampled_from([0, 3]), st.sampled_from([0, 3]))
def test_a_score_depends_on_the_displacement_alone(
    seed: int, i: float, j: float, shift: float, basis_heads: int, angle_heads: int
) -> None:
    grape = learned(seed, basis_heads=basis_heads, angle_heads=angle_heads)
    query, key = normal(seed + 2, 2, 3, WIDTH)
    score = grape.score(query, key, at(i), at(j))
    assert score.shape == (3,)
    torch.testing.assert_close(
        score, grape.score(query, key, at(i + shift), at(j + shift)), rtol=0, atol=1e-10
    )
    torch.testing.assert_close(score, (query * grape.rotate(key, at(j - i))).sum(-1), rtol=0, atol=1e-10)


@pytest.mark.parametrize(("basis_heads", "angle_heads"), [(0, 0), (3, 0), (0, 3), (3, 3)])
def test_every_head_has_its_own_basis_and_spectrum_or_shares_one(basis_heads: int, angle_heads: int) -> None:
    grape, vectors = learned(7, basis_heads=basis_heads, angle_heads=angle_heads), normal(8, 5, 3, WIDTH)
    positions = torch.arange(5)
    turned = grape.rotate(vectors, positions[:, None])
    for head in range(3):
        alone = Subspaces(
            grape.basis[head] if basis_heads else grape.basis,
            grape.angles[head] if angle_heads else grape.angles,
        )
        torch.testing.assert_close(
            turned[:, head], alone.rotate(vectors[:, head], positions), rtol=0, atol=1e-14
        )


def test_planes_beyond_the_angles_are_not_turned() -> None:
    grape, vector = learned(1, planes=1), normal(2, WIDTH)
    turned = grape.rotate(vector, at(1.0))
    still = grape.basis[:, 2:]
    torch.testing.assert_close(still.T @ turned, still.T @ vector, rtol=0, atol=1e-14)
    assert float((turned - vector).norm()) > 0.1


@PAIRINGS
@given(seed=SEEDS, position=POSITIONS)
def test_orthogonal_complex_lines_span_planes_for_b_of_a_quarter_turn(
    pairing: Pairing, seed: int, position: float
) -> None:
    # Rows that a unitary matrix makes: orthogonal to each other and to each other's quarter turns.
    raw = torch.complex(normal(seed, 3, 4), normal(seed + 1, 3, 4))
    lines = torch.linalg.qr(raw.mT)[0].mT * (1 + torch.arange(3))[:, None]
    vectors = (
        torch.cat((lines.real, lines.imag), dim=-1)
        if pairing == "half"
        else torch.stack((lines.real, lines.imag), dim=-1).flatten(-2)
    )
    angles, vector = normal(seed + 2, 3), normal(seed + 3, WIDTH)
    product = vector
    for a, angle in zip(vectors, angles.tolist(), strict=True):
        product = RankTwo.canonical(a, -angle, pairing).rotate(product, at(position))
    spanned = Subspaces.spanned(vectors, angles, pairing).rotate(vector, at(position))
    torch.testing.assert_close(spanned, product, rtol=0, atol=1e-10)


def test_vectors_that_are_orthogonal_only_to_each_other_do_not_do() -> None:
    """All that the paper's section 3.1 asks for: here both span one plane, which turns twice as fast."""
    unit = torch.eye(4, dtype=torch.float64)
    assert float(unit[0] @ unit[1]) == 0
    assert torch.equal(quarter_turn(unit[0]), unit[1])
    both = unit[2] + unit[0]
    for angle in (0.5, 0.5):
        both = RankTwo.canonical(unit[int(angle)], -angle).rotate(both, at(1))
    assert float(both[0]) == pytest.approx(torch.cos(at(1.0)).item())
    with pytest.raises(EncodingError, match="every a must be orthogonal"):
        Subspaces.spanned(unit[:2], torch.ones(2, dtype=torch.float64))


@given(SEEDS, POSITIONS, st.integers(2, 9), st.integers(1, 3))
def test_any_skew_generator_has_planes_of_its_own(seed: int, position: float, width: int, rank: int) -> None:
    a, b = normal(seed, 2, rank, width)
    summed = a.T @ b - b.T @ a
    grape, vector = Subspaces.of_generator(summed), normal(seed + 1, width)
    exact = exponential(position / 10 * summed) @ vector
    assert grape.planes <= rank
    assert (grape.angles > 0).all()
    torch.testing.assert_close(grape.rotate(vector, at(position / 10)), exact, rtol=0, atol=1e-10)


def test_a_generator_of_equal_and_of_tiny_angles_keeps_orthogonal_planes() -> None:
    basis = torch.linalg.matrix_exp(skew(3, WIDTH))
    original = Subspaces(basis, torch.tensor([1.0, 1.0, 1e-13, 0.0], dtype=torch.float64))
    found = Subspaces.of_generator(generator(original))
    assert found.angles[:2].tolist() == pytest.approx([1, 1], abs=1e-12)
    torch.testing.assert_close(generator(found), generator(original), rtol=0, atol=1e-14)


@given(SEEDS, st.integers(2, 9))
def test_what_a_generator_leaves_still_is_no_plane(seed: int, width: int) -> None:
    a, b = normal(seed, 2, width)
    crossed = torch.outer(a, b) - torch.outer(b, a)
    assert Subspaces.of_generator(crossed + crossed.T @ crossed @ crossed).planes == 1


def test_a_matrix_that_turns_nothing_or_does_more_than_turn_is_no_generator() -> None:
    for matrix in (torch.zeros(4, 4, dtype=torch.float64), torch.eye(4, dtype=torch.float64)):
        with pytest.raises(EncodingError, match="generator"):
            Subspaces.of_generator(matrix)


@PAIRINGS
@given(seed=SEEDS, planes=st.integers(1, PLANES), start=st.integers(0, 10_000), heads=st.sampled_from([0, 2]))
def test_in_its_basis_it_is_rope_with_angles_of_its_own(
    pairing: Pairing, seed: int, planes: int, start: int, heads: int
) -> None:
    grape = learned(seed, basis_heads=heads, planes=planes)
    grape = Subspaces(grape.basis, grape.angles.abs() + 1e-3)
    query, key = normal(seed + 2, 2, 3, 2, WIDTH)
    i, j = start + torch.arange(3), start + torch.tensor([0, 500, 7])
    inside = [
        rope(grape.into_basis(vectors, pairing), positions, grape.profile(pairing))
        for vectors, positions in ((query, i), (key, j))
    ]
    scores = (inside[0] * inside[1]).sum(-1)
    torch.testing.assert_close(scores, grape.score(query, key, i[:, None], j[:, None]), rtol=0, atol=1e-10)


@PAIRINGS
@pytest.mark.parametrize("heads", [0, 2])
def test_attention_of_folded_projections_is_attention_of_turned_heads(pairing: Pairing, heads: int) -> None:
    """Four query heads in two groups; the cache holds keys in the basis, and values are as they were."""
    tokens, hidden, offset = 6, 12, 8192
    grape = learned(5, basis_heads=heads).settled()
    states, value = normal(6, tokens, hidden), normal(7, tokens, 2, 5)
    weights = [normal(8, 4 * WIDTH, hidden), normal(9, 2 * WIDTH, hidden)]
    biases = [normal(10, 4 * WIDTH), normal(11, 2 * WIDTH)]
    positions = offset + torch.arange(tokens)

    query, key = (
        (states @ weight.T + bias).unflatten(-1, (-1, WIDTH))
        for weight, bias in zip(weights, biases, strict=True)
    )
    wide = Subspaces(grape.basis.repeat_interleave(2, 0), grape.angles) if heads else grape
    expected = attend(
        wide.rotate(query, positions[:, None]),
        grape.rotate(key, positions[:, None]),
        value,
        causal(positions, positions),
    )
    query, key = (
        (states @ grape.fold(weight, pairing).T + grape.fold(bias, pairing)).unflatten(-1, (-1, WIDTH))
        for weight, bias in zip(weights, biases, strict=True)
    )
    folded = attend(
        query,
        key,
        value,
        causal(positions, positions),
        Rotation.of(grape.profile(pairing), positions, positions),
    )
    torch.testing.assert_close(folded, expected, rtol=0, atol=1e-10)


def test_folding_commutes_with_a_norm_whose_weights_are_alike_and_with_no_other() -> None:
    grape, states, weight = learned(1), normal(2, 5, 12), normal(3, 2 * WIDTH, 12)
    plain, folded = ((states @ w.T).unflatten(-1, (2, WIDTH)) for w in (weight, grape.fold(weight, "half")))
    for weights, commutes in ((torch.full((WIDTH,), 1.7), True), (1 + torch.arange(WIDTH) / WIDTH, False)):
        norm = nn.RMSNorm(WIDTH, dtype=torch.float64)
        with torch.no_grad():
            norm.weight.copy_(weights)
            error = float((grape.into_basis(norm(plain), "half") - norm(folded)).abs().max())
        assert (error < 1e-12) == commutes


@pytest.mark.parametrize("alike", [True, False])
def test_a_norm_after_the_turn_keeps_scores_relative_only_if_its_weights_are_alike(alike: bool) -> None:
    """The public GRAPE code turns first and normalises after, by weights of each feature."""
    grape, (query, key) = Subspaces.rope(Profile.rope(1e4, WIDTH)), normal(1, 2, WIDTH)
    norm = nn.RMSNorm(WIDTH, dtype=torch.float64)
    with torch.no_grad():
        norm.weight.copy_(torch.ones(WIDTH) if alike else 1 + torch.arange(WIDTH) / WIDTH)
        near, far = (
            float(norm(grape.rotate(query, at(i))) @ norm(grape.rotate(key, at(i - 5)))) for i in (5, 905)
        )
    assert (abs(near - far) < 1e-10) == alike


@given(SEEDS, st.integers(0, 100_000), st.integers(0, 100_000))
def test_the_public_codes_sign_is_ropes_with_the_features_of_each_pair_swapped(
    seed: int, i: int, j: int
) -> None:
    """It turns by −θ: the same scores as by θ at the negative displacement, and not as by θ."""
    forward = Subspaces.rope(Profile.rope(1e4, WIDTH))
    backward = Subspaces(forward.basis, -forward.angles)
    query, key = normal(seed, 2, WIDTH)
    score = float(backward.score(query, key, torch.tensor(i), torch.tensor(j)))
    swapped = [torch.cat(vector.chunk(2)[::-1]) for vector in (query, key)]
    assert score == pytest.approx(float(forward.score(*swapped, torch.tensor(i), torch.tensor(j))), abs=1e-9)
    assert score == pytest.approx(
        float(forward.score(query, key, torch.tensor(-i), torch.tensor(-j))), abs=1e-9
    )


def test_settled_planes_turn_forwards_the_fastest_first_and_nothing_else_changes() -> None:
    angles = torch.tensor([-0.1, 0.0, 2.0, -3.0], dtype=torch.float64)
    grape = Subspaces(learned(1).basis, angles)
    settled, vector = grape.settled(), normal(2, WIDTH)
    assert settled.angles.tolist() == [3.0, 2.0, 0.1]
    for position in (1.0, -5.0, 100.0):
        torch.testing.assert_close(
            settled.rotate(vector, at(position)), grape.rotate(vector, at(position)), rtol=0, atol=1e-13
        )
    assert settled.profile("half").frequencies == (3.0, 2.0, 0.1)


@pytest.mark.parametrize("angles", [[[1.0], [2.0]], [-1.0], [0.0]])
def test_angles_that_no_profile_has_are_refused(angles: list[float]) -> None:
    grape = Subspaces(torch.eye(4, dtype=torch.float64), torch.tensor(angles, dtype=torch.float64))
    with pytest.raises(ProfileError, match="frequencies"):
        grape.profile("half")


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_a_basis_kept_in_few_bits_is_made_orthogonal_once(dtype: torch.dtype) -> None:
    exact = learned(1)
    kept = exact.basis.to(dtype)
    with pytest.raises(EncodingError, match="orthonormal"):
        Subspaces(kept.double(), exact.angles)
    nearest = Subspaces.nearest(kept, exact.angles)
    assert float((nearest.basis - exact.basis).abs().max()) < 2 * torch.finfo(dtype).eps


def test_a_basis_and_a_spectrum_are_learned_with_the_laws_kept() -> None:
    """By torch's own parametrisation of orthogonal matrices: it finds the planes of a hidden encoding."""
    hidden = learned(1)
    torch.manual_seed(0)
    layer = nn.utils.parametrizations.orthogonal(nn.Linear(WIDTH, WIDTH, bias=False, dtype=torch.float64))
    angles = nn.Parameter(hidden.angles + 0.1)
    optimizer = torch.optim.Adam([*layer.parameters(), angles], lr=0.02)
    query, key, positions = *normal(2, 2, 64, WIDTH), torch.arange(64) % 7
    target = hidden.score(query, key, positions, 3 * positions).detach()
    losses = []
    for _ in range(150):
        optimizer.zero_grad()
        grape = Subspaces(layer.weight, angles)
        loss = (grape.score(query, key, positions, 3 * positions) - target).square().mean()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    assert losses[-1] < losses[0] / 10
    with torch.no_grad():
        trained = Subspaces(layer.weight, angles)
        torch.testing.assert_close(
            trained.score(query, key, at(1000), at(990)),
            trained.score(query, key, at(10), at(0)),
            rtol=0,
            atol=1e-10,
        )


@pytest.mark.parametrize(
    ("basis", "angles", "field"),
    [
        (torch.eye(4), torch.ones(2, dtype=torch.float64), "basis"),
        (torch.eye(4, dtype=torch.float64)[:3], torch.ones(2, dtype=torch.float64), "basis"),
        (2 * torch.eye(4, dtype=torch.float64), torch.ones(2, dtype=torch.float64), "basis"),
        (torch.full((4, 4), torch.nan, dtype=torch.float64), torch.ones(2, dtype=torch.float64), "basis"),
        (torch.eye(4, dtype=torch.float64), torch.ones(3, dtype=torch.float64), "angles"),
        (torch.eye(4, dtype=torch.float64), torch.full((2,), torch.inf, dtype=torch.float64), "angles"),
        (torch.eye(4, dtype=torch.float64).repeat(2, 1, 1), torch.ones(3, 2, dtype=torch.float64), "angles"),
    ],
)
def test_what_is_no_orthogonal_encoding_is_refused_by_name(
    basis: torch.Tensor, angles: torch.Tensor, field: str
) -> None:
    with pytest.raises(EncodingError) as caught:
        Subspaces(basis, angles)
    assert caught.value.field == field


def test_a_profile_that_stretches_keys_is_no_rotation() -> None:
    with pytest.raises(EncodingError, match="attention_factor"):
        Subspaces.rope(Profile(1e4, 4, attention_factor=1.2, frequencies=(1.0, 0.1)))


def test_a_projection_of_other_heads_is_refused() -> None:
    grape = learned(1, basis_heads=3)
    for rows in (WIDTH + 1, 4 * WIDTH):
        with pytest.raises(EncodingError, match="projection"):
            grape.fold(torch.zeros(rows, 2), "half")
