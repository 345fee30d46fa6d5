"""Generators: the law of composition, the exponential of a matrix as another opinion, and their stability."""

import dataclasses
import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from positional.encodings.block import Block
from positional.encodings.contract import EncodingError
from positional.encodings.generator import Generator
from positional.encodings.rope import Rope
from positional.encodings.stability import Stability, UnstableError
from positional.profile import Profile

SEEDS = st.integers(0, 2**32 - 1)
AGES = st.floats(-8, 8)
BLOCKS = st.builds(
    Block,
    decay=st.floats(-0.3, 0.3),
    frequency=st.one_of(st.just(0.0), st.floats(0.01, 2)),
    size=st.integers(1, 4),
    coupling=st.floats(-1, 1),
)


@st.composite
def generators(draw: st.DrawFn) -> Generator:
    """Blocks side by side, half of them in a basis of their own."""
    plain = Generator(tuple(draw(st.lists(BLOCKS, min_size=1, max_size=4))))
    if draw(st.booleans()):
        return plain
    skew = 0.2 * normal(draw(SEEDS), plain.width, plain.width)
    return dataclasses.replace(plain, basis=torch.eye(plain.width, dtype=torch.float64) + skew)


def normal(seed: int, *shape: int) -> torch.Tensor:
    return torch.randn(*shape, dtype=torch.float64, generator=torch.Generator().manual_seed(seed))


def at(age: float) -> torch.Tensor:
    return torch.tensor(age, dtype=torch.float64)


def same(found: torch.Tensor, expected: torch.Tensor) -> None:
    torch.testing.assert_close(found, expected, rtol=1e-6, atol=1e-6 * float(1 + expected.abs().max()))


@given(generators(), SEEDS, AGES)
def test_a_map_is_the_exponential_of_its_generator(generator: Generator, seed: int, age: float) -> None:
    vectors = normal(seed, 3, generator.width)
    whole = torch.linalg.matrix_exp(age * generator.matrix())
    same(generator.act(vectors, at(age)), vectors @ whole.T)
    same(generator.act(vectors, at(age), transposed=True), vectors @ whole)


@given(generators(), SEEDS, AGES, AGES)
def test_displacements_add_up(generator: Generator, seed: int, first: float, second: float) -> None:
    vector = normal(seed, generator.width)
    same(
        generator.act(generator.act(vector, at(first)), at(second)), generator.act(vector, at(first + second))
    )


@given(generators(), SEEDS, AGES, AGES)
def test_query_and_key_meet_in_the_score_of_their_displacement(
    generator: Generator, seed: int, i: float, j: float
) -> None:
    query, key = normal(seed, 2, generator.width)
    apart = (generator.query(query, at(i)) * generator.key(key, at(j))).sum()
    same(apart, generator.score(query, key, at(i - j), at(0)))


@given(SEEDS, st.integers(0, 100_000), st.integers(0, 100_000))
def test_turns_alone_are_rope(seed: int, i: int, j: int) -> None:
    profile = Profile.rope(10_000, 16, "interleaved")
    query, key = normal(seed, 2, 16)
    places = torch.tensor(i), torch.tensor(j)
    turned = Generator.rotations(profile).score(query, key, *places)
    torch.testing.assert_close(turned, Rope(profile, 16).score(query, key, *places), rtol=0, atol=1e-8)


@given(SEEDS, AGES)
def test_turns_against_the_age_are_another_encoding(seed: int, age: float) -> None:
    block = Block(frequency=0.7)
    mirrored = dataclasses.replace(block, frequency=-0.7)
    vector = normal(seed, 2)
    same(block.act(vector, at(age)), mirrored.act(vector, at(-age)))
    if abs(math.sin(0.7 * age)) > 0.1:
        assert (block.act(vector, at(age)) - mirrored.act(vector, at(age))).norm() > 0.1 * vector.norm()


@given(st.floats(-2, 2), AGES)
def test_a_chain_of_two_is_a_line_over_the_age(slope: float, age: float) -> None:
    """What ALiBi is made of: the eigenvalue 0 twice."""
    one = torch.eye(2, dtype=torch.float64)
    score = Generator((Block(size=2, coupling=-slope),)).score(one[0], one[1], at(age), at(0))
    assert score.item() == pytest.approx(-slope * age, abs=1e-12)


def test_a_spectrum_gives_one_block_of_each_conjugate_pair() -> None:
    generator = Generator.from_spectrum([-0.1 + 2j, -0.5, 0], [1, 2, 1])
    assert generator.blocks == (Block(0.1, 2.0), Block(0.5, 0.0, 2), Block(0.0))
    found = torch.linalg.eigvals(generator.matrix())
    expected = [-0.5, -0.5, -0.1 - 2j, -0.1 + 2j, 0]
    assert sorted(found.tolist(), key=lambda z: (z.real, z.imag)) == pytest.approx(expected, abs=1e-7)


def test_one_step_takes_no_matrix() -> None:
    """A million features: their matrix would take 8 TB."""
    generator = Generator((Block(0.1, 0.5, size=2),))
    wide = Generator((Block(0.1, size=1_000_000, coupling=0.0),))
    assert generator.act(torch.ones(4), at(1)).shape == (4,)
    assert wide.act(torch.ones(1_000_000), at(2))[[0, -1]].tolist() == pytest.approx([math.exp(-0.2)] * 2)


@given(SEEDS, AGES)
def test_turns_in_an_orthogonal_basis_keep_the_norm(seed: int, age: float) -> None:
    basis = torch.linalg.qr(normal(seed, 6, 6))[0]
    generator = Generator(tuple(Block(frequency=w) for w in (1.0, 0.3, 0.05)), basis)
    vector = normal(seed + 1, 6)
    assert generator.act(vector, at(age)).norm().item() == pytest.approx(vector.norm().item())
    stability = Stability.of(generator)
    assert stability.condition == pytest.approx(1)
    assert stability.departure == pytest.approx(0, abs=1e-12)
    stability.require(bidirectional=True)


def test_turns_in_a_skewed_basis_do_not_though_the_spectrum_is_the_same() -> None:
    basis = torch.tensor([[1.0, 1.0], [0.0, 0.01]], dtype=torch.float64)
    generator = Generator((Block(frequency=1.0),), basis)
    stability = Stability.of(generator)
    enlarged = generator.act(torch.eye(2, dtype=torch.float64), at(math.pi / 2)).norm(dim=-1).max()
    assert 50 < enlarged <= stability.condition
    with pytest.raises(UnstableError, match="basis: its condition must be at most 100 "):
        stability.require(bidirectional=False, condition_limit=100)


def test_a_decay_may_first_enlarge_what_it_ends() -> None:
    generator = Generator((Block(decay=0.1, size=3),))
    stability = Stability.of(generator)
    assert stability.forward == "none"
    # Of a chain of three: the decay, and the cosine of an eighth of a turn for what the chain adds.
    assert stability.departure == pytest.approx(math.cos(math.pi / 4) - 0.1)
    key = torch.tensor([0.0, 0.0, 1.0])
    norms = generator.act(key, torch.arange(200.0)).norm(dim=-1)
    assert norms.max() > 10
    assert norms[-1] < 0.1


@given(st.floats(0.001, 2))
def test_a_decay_is_for_causal_use_alone(decay: float) -> None:
    stability = Stability.of(Generator((Block(decay),)))
    stability.require(bidirectional=False)
    with pytest.raises(UnstableError, match="blocks: a block grows at negative ages"):
        stability.require(bidirectional=True)


def test_a_growth_with_age_is_for_no_use() -> None:
    with pytest.raises(UnstableError, match="decay: a block grows with a key's age"):
        Stability.of(Generator((Block(0.1), Block(-0.1)))).require(bidirectional=False)


def test_powers_of_the_age_are_for_causal_use_alone() -> None:
    stability = Stability.of(Generator((Block(size=2),)))
    assert (stability.forward, stability.backward) == ("polynomial", "polynomial")
    stability.require(bidirectional=False)
    with pytest.raises(UnstableError, match="blocks"):
        stability.require(bidirectional=True)


def test_a_broken_chain_grows_by_no_power() -> None:
    Stability.of(Generator((Block(size=3, coupling=0.0),))).require(bidirectional=True)


def test_only_turns_are_cached_as_keys() -> None:
    assert Generator((Block(frequency=1.0),)).contract.servable
    decaying = Generator((Block(0.01, 1.0),)).contract
    assert not decaying.servable
    # ln of float32's largest number, 88.7, at a hundredth a token.
    assert "8,872 tokens" in decaying.why
    assert not Generator((Block(size=2),)).contract.servable


@pytest.mark.parametrize(
    ("block", "field"),
    [
        ({"size": 0}, "size"),
        ({"decay": math.nan}, "decay"),
        ({"frequency": math.inf}, "frequency"),
        ({"coupling": math.inf}, "coupling"),
    ],
)
def test_a_block_that_cannot_be_is_refused_by_name(block: dict[str, float], field: str) -> None:
    with pytest.raises(EncodingError, match=field):
        Block(**block)  # type: ignore[arg-type]


def test_a_generator_that_cannot_be_is_refused_by_name() -> None:
    with pytest.raises(EncodingError, match="blocks: must not be empty"):
        Generator(())
    with pytest.raises(EncodingError, match="basis: must be 1 by 1"):
        Generator((Block(),), torch.eye(2))
    with pytest.raises(EncodingError, match="profile: must pair neighbours"):
        Generator.rotations(Profile.rope(10_000, 8))
