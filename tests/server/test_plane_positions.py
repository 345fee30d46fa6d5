"""Positions of three planes, told at the ends of segments, agree with every token's own."""

import itertools

import pytest
import torch

from positional.coordinates import Coordinates
from positional.modulation import Modulation
from positional.profile import Profile
from positional.qgpm import PACKAGE_DEFAULTS, build_modulation
from server.plane_positions import plane_positions

PROFILE = Profile.rope(10_000.0, 64)
TOKENS = 900


@pytest.fixture(scope="module")
def modulation() -> Modulation:
    spans = list(itertools.pairwise(range(20, 880, 20)))
    relevance = torch.sin(torch.arange(len(spans), dtype=torch.float64) * 7)
    return build_modulation(relevance, spans, TOKENS, PACKAGE_DEFAULTS)[0]


def test_lines_between_the_told_tokens_hold_every_token(modulation: Modulation) -> None:
    told = plane_positions(modulation, PROFILE, TOKENS)
    coordinates = Coordinates.from_modulation(modulation, PROFILE)
    xs = torch.tensor(told["tokens"], dtype=torch.float64)
    for plane, name in itertools.product(told["planes"], ("broad", "sharp")):
        ys = torch.tensor(plane[name], dtype=torch.float64)
        exact = coordinates.positions(name, range(TOKENS))[:, plane["plane"]]
        at = torch.arange(TOKENS, dtype=torch.float64)
        left = (torch.searchsorted(xs, at, right=True) - 1).clamp(max=len(xs) - 2)
        share = (at - xs[left]) / (xs[left + 1] - xs[left])
        torch.testing.assert_close(ys[left] + share * (ys[left + 1] - ys[left]), exact)


def test_the_planes_are_the_fastest_the_one_at_the_boundary_and_the_slowest(modulation: Modulation) -> None:
    told = plane_positions(modulation, PROFILE, TOKENS)
    assert [plane["name"] for plane in told["planes"]] == ["fast", "boundary", "slow"]
    assert [plane["plane"] for plane in told["planes"]] == [0, round(told["boundary"]), 31]
    fast, boundary, slow = (plane["broad"][-1] for plane in told["planes"])
    assert fast < boundary < slow <= TOKENS


def test_a_long_prompt_takes_no_more_numbers_than_its_segments(modulation: Modulation) -> None:
    told = plane_positions(modulation, PROFILE, 1_000_000)
    assert len(told["tokens"]) <= 2 * len(modulation.starts)
    assert (told["tokens"][0], told["tokens"][-1]) == (0, 999_999)


def test_a_boundary_beyond_the_planes_is_the_last_one() -> None:
    far = Modulation((0,), (1.0,), (1.0,), 1e12, 0.5, 0.1)
    told = plane_positions(far, PROFILE, 10)
    assert told["boundary"] > 31
    assert told["planes"][1]["plane"] == 31
