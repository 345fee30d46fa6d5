"""Coordinates: segments that equal eq. 7 and 8 summed token by token."""

import dataclasses
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from positional.coordinates import Coordinates, MapName
from positional.modulation import ENDLESS, Modulation
from positional.planes import gate
from positional.profile import Profile
from positional.qgpm import PACKAGE_DEFAULTS, QGPMConfig, build_coordinates

PROFILE = Profile.rope(1e4, 32)
MAPS: tuple[MapName, MapName] = ("broad", "sharp")
BEYOND = 25


@dataclasses.dataclass(frozen=True)
class Document:
    relevance: list[float]
    spans: list[tuple[int, int]]
    num_tokens: int
    config: QGPMConfig

    @property
    def coordinates(self) -> Coordinates:
        return build_coordinates(self.relevance, self.spans, self.num_tokens, PROFILE, self.config)

    def token_by_token(self, name: MapName, coordinates: Coordinates) -> torch.Tensor:
        """Eq. 7 and 8, one stride a token: float64 [num_tokens + BEYOND, planes]."""
        score = torch.ones(self.num_tokens + BEYOND, dtype=torch.float64)
        for (start, end), s in zip(self.spans, coordinates.scores(name).tolist(), strict=True):
            if start >= coordinates.protected_until(name):
                score[start:end] = s
        gates = gate(PROFILE, self.config.anchor_ratio * self.num_tokens, self.config.gate_width)
        stride = (score[:, None] + (1 - score[:, None]) * gates).clamp_min(self.config.stride_floor)
        stride[0] = 0
        return stride.cumsum(dim=0)


@st.composite
def documents(draw: st.DrawFn) -> Document:
    count = draw(st.integers(2, 12))
    spans, token = [], 0
    for _ in range(count):
        start = token + draw(st.integers(0, 4))
        token = start + draw(st.integers(1, 9))
        spans.append((start, token))
    k_sharp = draw(st.integers(1, 6))
    config = QGPMConfig(
        k_broad=k_sharp + draw(st.integers(1, 6)),
        t_broad=draw(st.floats(0, 4)),
        k_sharp=k_sharp,
        t_sharp=draw(st.floats(0, 4)),
        score_low=draw(st.floats(0, 0.99)),
        stride_floor=draw(st.floats(0.01, 1)),
        anchor_ratio=draw(st.floats(0.01, 4)),
        gate_width=draw(st.floats(0.01, 4)),
    )
    relevance = [float(draw(st.integers(-9, 9))) for _ in range(count - 1)] + [10.0]
    return Document(draw(st.permutations(relevance)), spans, token + draw(st.integers(0, 9)), config)


@pytest.mark.parametrize("name", MAPS)
@given(document=documents())
def test_segments_equal_the_sum_token_by_token(name: MapName, document: Document) -> None:
    coordinates = document.coordinates
    expected = document.token_by_token(name, coordinates)
    found = coordinates.positions(name, range(len(expected)))
    assert found.dtype == torch.float64
    assert torch.allclose(found, expected, rtol=0, atol=1e-10)


@pytest.mark.parametrize("name", MAPS)
@given(document=documents())
def test_positions_start_at_0_ascend_and_end_in_unit_steps(name: MapName, document: Document) -> None:
    positions = document.coordinates.positions(name, range(document.num_tokens + BEYOND))
    steps = positions.diff(dim=0)
    assert (positions[0] == 0).all()
    assert (steps >= document.config.stride_floor - 1e-10).all()
    assert (steps <= 1 + 1e-10).all()
    behind = steps[document.spans[-1][1] :]
    assert torch.allclose(behind, torch.ones_like(behind), rtol=0, atol=1e-10)


@given(document=documents())
def test_no_token_before_standard_until_moves_and_that_one_does(document: Document) -> None:
    coordinates = document.coordinates
    until = coordinates.standard_until
    tokens = range(min(until + 1, document.num_tokens + BEYOND))
    standard = coordinates.positions("standard", tokens)
    moved = torch.stack([coordinates.positions(name, tokens) != standard for name in MAPS])
    assert not moved[:, :until].any()
    # A gate or floor of 1 leaves even a low score at its standard place.
    segment = torch.searchsorted(coordinates.starts, until, right=True) - 1
    if until < len(tokens) and bool((coordinates.stride[:, segment] < 1 - 1e-9).any()):
        assert moved[:, until].any()
    assert coordinates.protected_prefix <= max(until, document.spans[-1][0])


@given(document=documents(), order=st.randoms(use_true_random=False))
def test_tokens_may_come_in_any_order_and_kind(document: Document, order: Any) -> None:
    coordinates = document.coordinates
    tokens = list(range(document.num_tokens + BEYOND))
    ascending = coordinates.positions("broad", tokens)
    order.shuffle(tokens)
    assert torch.equal(coordinates.positions("broad", tokens), ascending[tokens])
    as_tensor = torch.tensor(tokens, dtype=torch.int32)
    assert torch.equal(coordinates.positions("broad", as_tensor), ascending[tokens])


def document(**settings: Any) -> Document:
    spans = [(10 + 8 * i, 18 + 8 * i) for i in range(12)]
    relevance = [0.0, 5.0, 1.0, 9.0, 2.0, 8.0, 3.0, 7.0, 4.0, 6.0, 0.5, 0.25]
    return Document(relevance, spans, 120, dataclasses.replace(PACKAGE_DEFAULTS, **settings))


@pytest.mark.parametrize("name", MAPS)
def test_slow_planes_stay_standard_and_fast_ones_shrink(name: MapName) -> None:
    coordinates = document(k_broad=3, k_sharp=1, gate_width=0.1).coordinates
    positions, standard = (coordinates.positions(n, range(130)) for n in (name, "standard"))
    assert (positions - standard)[:, -4:].abs().max() < 1e-6
    assert (standard - positions)[-1, 0] > 10


def test_where_all_scores_are_1_positions_are_standard_exactly() -> None:
    coordinates = document(k_broad=40, t_broad=0, k_sharp=30, t_sharp=0).coordinates
    for name in MAPS:
        assert coordinates.scores(name).tolist() == [1.0] * 12
        assert torch.equal(
            coordinates.positions(name, range(200)), coordinates.positions("standard", range(200))
        )
    assert coordinates.standard_until == ENDLESS


def test_standard_positions_are_the_token_indices_on_every_plane() -> None:
    found = document().coordinates.positions("standard", [3, 0, 1_048_575])
    assert found.tolist() == [[float(token)] * 16 for token in (3, 0, 1_048_575)]


@pytest.mark.parametrize("name", ["standard", "broad", "sharp"])
def test_no_tokens_have_no_positions(name: MapName) -> None:
    assert document().coordinates.positions(name, []).shape == (0, 16)


def test_a_lower_floor_never_lengthens_a_step() -> None:
    low, high = (document(stride_floor=floor).coordinates for floor in (0.1, 0.9))
    for name in MAPS:
        assert (low.positions(name, range(130)) <= high.positions(name, range(130))).all()


def test_what_a_request_carries_gives_the_same_positions_without_the_sentences() -> None:
    built = document().coordinates
    modulation = Modulation(
        starts=(0, 12),
        broad=(0.5, 1.0),
        sharp=(0.25, 1.0),
        anchor_length=12,
        gate_width=0.5,
        stride_floor=0.1,
    )
    carried = Coordinates.from_modulation(Modulation.from_bytes(modulation.to_bytes()), PROFILE)
    direct = Coordinates.from_modulation(modulation, PROFILE)
    for name in MAPS:
        assert torch.equal(carried.positions(name, range(40)), direct.positions(name, range(40)))
    with pytest.raises(ValueError, match="not built from sentences"):
        carried.scores("broad")
    assert built.scores("broad").shape == (12,)


def test_a_score_of_its_own_from_the_first_token_on_leaves_that_token_at_0() -> None:
    modulation = Modulation((0, 3), (0.5, 1.0), (0.5, 1.0), 1e-9, 0.01, 0.1)
    coordinates = Coordinates.from_modulation(modulation, Profile(1e4, 2, frequencies=(1e9,)))
    # The anchor is far below the only plane's wavelength, so the gate is open or shut as a whole.
    shut = dataclasses.replace(coordinates, stride=torch.tensor([[[0.5], [1.0]]] * 2, dtype=torch.float64))
    assert shut.positions("broad", range(3))[:, 0].tolist() == [0.0, 0.5, 1.0]
    assert coordinates.standard_until == 1
