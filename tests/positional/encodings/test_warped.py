"""Relative warps under the contract."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from positional.encodings.rope import Rope
from positional.encodings.warped import Warped
from positional.profile import Profile
from positional.warps import Plain, Rerope, Scaled, SelfExtend, String, Warp

WIDTH = 8
PROFILE = Profile.rope(10_000, WIDTH)
WARPS: list[Warp] = [String(9, 3), SelfExtend(3, 4), Rerope(4), Rerope(4, 0.5), Scaled(1.5)]
PLACES = st.integers(0, 200)


def content(seed: int) -> torch.Tensor:
    return torch.randn(2, WIDTH, dtype=torch.float64, generator=torch.Generator().manual_seed(seed))


def score(warp: Warp, i: int, j: int, seed: int = 0) -> float:
    return Warped(warp, PROFILE, WIDTH).score(*content(seed), torch.tensor(i), torch.tensor(j)).item()


@given(st.integers(0, 99), PLACES, PLACES)
def test_a_plain_warp_is_rope_on_both_sides_of_the_query(seed: int, i: int, j: int) -> None:
    rope = Rope(PROFILE, WIDTH).score(*content(seed), torch.tensor(i), torch.tensor(j))
    assert score(Plain(), i, j, seed) == pytest.approx(rope.item(), abs=1e-12)


@given(PLACES, PLACES)
def test_a_displacement_keeps_its_sign(i: int, j: int) -> None:
    warped = Warped(Rerope(4, 0.5), PROFILE, WIDTH)
    there, back = warped.displacement(torch.tensor([i, j]), torch.tensor([j, i])).tolist()
    assert there == -back
    assert (there > 0) == (i > j)


@pytest.mark.parametrize("warp", WARPS)
@given(i=PLACES, distance=st.integers(0, 60), shift=PLACES)
def test_what_says_that_it_is_relative_is(warp: Warp, i: int, distance: int, shift: int) -> None:
    if Warped(warp, PROFILE, WIDTH).contract.relative == "exact":
        expected = score(warp, i + distance, i)
        assert score(warp, i + shift + distance, i + shift) == pytest.approx(expected, abs=1e-9)


def test_groups_hang_on_where_they_begin() -> None:
    assert score(SelfExtend(3, 4), 10, 2) != pytest.approx(score(SelfExtend(3, 4), 11, 3), abs=1e-3)


@pytest.mark.parametrize("warp", WARPS)
def test_no_warp_is_served_and_each_says_so(warp: Warp) -> None:
    contract = Warped(warp, PROFILE, WIDTH).contract
    assert not contract.servable
    assert contract.cache_rule == "end_point"
    assert "for comparison alone" in contract.why
