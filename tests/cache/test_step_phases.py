"""Tables of random numbers stand for the stock rows: whatever is copied from them cannot be computed."""

import pytest
import torch

from cache.placement import Placement
from cache.step_phases import MODULATED_MAPS, PlacedSpan, StepPhases
from positional.coordinates import Coordinates, MapName
from positional.modulation import Modulation
from positional.phases import rotation_rows
from positional.profile import Profile

PROFILE = Profile.rope(10_000.0, 8)
TABLE = torch.rand(100, 8)
MODULATION = Modulation((0, 10, 30, 50), (1.0, 0.4, 0.7, 1.0), (1.0, 1.0, 0.3, 1.0), 20.0, 0.5, 0.1)
COORDINATES = Coordinates.from_modulation(MODULATION, PROFILE)
MODULATED = Placement(COORDINATES, PROFILE, own=True)
FOREIGN = Profile.rope(500.0, 8)
ALL_MAPS: tuple[MapName, ...] = ("standard", *MODULATED_MAPS)


def place(modulation: Modulation | None, profile: Profile | None = None) -> Placement:
    placement = Placement.of(modulation, profile, PROFILE)
    assert placement is not None
    return placement


def expected_rows(positions: torch.Tensor, profile: Profile) -> torch.Tensor:
    return rotation_rows(positions, profile, torch.float32)


def phases(
    max_tokens: int = 32,
    dtype: torch.dtype = torch.float32,
    maps: tuple[MapName, ...] = MODULATED_MAPS,
) -> StepPhases:
    return StepPhases(TABLE, max_tokens, dtype, maps)


@pytest.mark.parametrize("max_tokens", [32, 300])
def test_rows_are_valid_before_the_first_step(max_tokens: int) -> None:
    made = phases(max_tokens)
    for rows in made.rows.values():
        assert torch.equal(rows, TABLE[torch.arange(max_tokens).clamp(max=99)])
    assert torch.equal(made.index, torch.arange(max_tokens))


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_plain_tokens_get_the_stock_rows_bit_for_bit(dtype: torch.dtype) -> None:
    made = phases(dtype=dtype)
    positions = torch.tensor([7, 8, 9, 0, 99, 42])
    made.fill(positions, [])
    for rows in made.rows.values():
        assert rows.dtype == dtype
        assert torch.equal(rows[:6], TABLE.to(dtype)[positions])


def test_modulated_tokens_get_the_rows_of_their_coordinates() -> None:
    made = phases()
    positions = torch.cat((torch.arange(5, 25), torch.tensor([70, 71, 3])))
    made.fill(positions, [PlacedSpan(MODULATED, 20, 70, 2), PlacedSpan(MODULATED, 0, 5, 20)])
    for name in MODULATED_MAPS:
        rows = made.rows[name]
        for first, tokens in ((5, range(10, 25)), (20, range(70, 72))):
            expected = rotation_rows(COORDINATES.positions(name, list(tokens)), PROFILE, torch.float32)
            assert torch.equal(rows[first : first + len(tokens)], expected)
        assert torch.equal(rows[:5], TABLE[5:10])
        assert torch.equal(rows[22], TABLE[3])
    assert not torch.equal(made.rows["broad"][:20], made.rows["sharp"][:20])


def test_the_next_step_keeps_nothing_of_the_last_one() -> None:
    made = phases()
    made.fill(torch.arange(60, 80), [PlacedSpan(MODULATED, 0, 60, 20)])
    made.fill(torch.arange(60, 80), [])
    for rows in made.rows.values():
        assert torch.equal(rows[:20], TABLE[60:80])


def test_a_span_inside_the_protected_prefix_stays_stock() -> None:
    made = phases()
    made.fill(torch.arange(10), [PlacedSpan(MODULATED, 0, 0, 10)])
    for rows in made.rows.values():
        assert torch.equal(rows[:10], TABLE[:10])


def test_standard_coordinates_are_stock_to_the_end() -> None:
    standard = place(Modulation((0,), (1.0,), (1.0,), 20.0, 0.5, 0.1))
    made = phases()
    made.fill(torch.arange(70, 90), [PlacedSpan(standard, 0, 70, 20)])
    for rows in made.rows.values():
        assert torch.equal(rows[:20], TABLE[70:90])


def test_token_zero_is_stock_where_the_first_sentence_is_weak() -> None:
    weak = place(Modulation((0, 20), (0.3, 1.0), (0.3, 1.0), 20.0, 0.5, 0.1))
    made = phases()
    made.fill(torch.arange(8), [PlacedSpan(weak, 0, 0, 8)])
    for name in MODULATED_MAPS:
        assert torch.equal(made.rows[name][0], TABLE[0])
        expected = rotation_rows(weak.positions(name, torch.tensor([1, 7])), PROFILE, torch.float32)
        assert torch.equal(made.rows[name][[1, 7]], expected)


def test_steps_write_into_the_same_memory() -> None:
    made = phases()
    places = [rows.data_ptr() for rows in made.rows.values()]
    for first in (0, 31, 60):
        made.fill(torch.arange(first, first + 32), [PlacedSpan(MODULATED, 0, first, 32)])
        made.fill(torch.arange(first, first + 1), [])
    assert [rows.data_ptr() for rows in made.rows.values()] == places


def test_what_carries_nothing_has_no_placement() -> None:
    assert Placement.of(None, None, PROFILE) is None


def test_another_profile_rotates_every_token_in_every_map() -> None:
    made = phases(maps=ALL_MAPS)
    made.fill(torch.arange(60, 80), [PlacedSpan(place(None, FOREIGN), 4, 64, 10)])
    positions = torch.arange(64, 74).double()[:, None].expand(-1, 4)
    for rows in made.rows.values():
        assert torch.equal(rows[4:14], expected_rows(positions, FOREIGN))
        assert torch.equal(rows[:4], TABLE[60:64])
        assert torch.equal(rows[14:20], TABLE[74:80])


def test_a_modulated_request_of_another_profile_takes_no_stock_row() -> None:
    both = place(MODULATION, FOREIGN)
    own = Coordinates.from_modulation(MODULATION, FOREIGN)
    made = phases(maps=ALL_MAPS)
    made.fill(torch.arange(32), [PlacedSpan(both, 0, 0, 32)])
    for name in ALL_MAPS:
        assert torch.equal(made.rows[name], expected_rows(own.positions(name, range(32)), FOREIGN))


def test_windowed_layers_of_a_modulated_request_stay_stock() -> None:
    made = phases(maps=ALL_MAPS)
    made.fill(torch.arange(40, 60), [PlacedSpan(MODULATED, 0, 40, 20)])
    assert torch.equal(made.rows["standard"][:20], TABLE[40:60])
    assert not torch.equal(made.rows["broad"][:20], TABLE[40:60])


def test_each_request_of_a_batch_rotates_by_its_own_profile() -> None:
    other = Profile.rope(77.0, 8)
    placements = [place(None, FOREIGN), MODULATED, place(MODULATION, other), place(None, FOREIGN)]
    spans = [PlacedSpan(placement, 5 * i, 20 + 7 * i, 5) for i, placement in enumerate(placements)]
    together = phases()
    together.fill(torch.zeros(22, dtype=torch.int64), spans)
    for span in spans:
        alone = phases()
        alone.fill(torch.zeros(22, dtype=torch.int64), [span])
        for name in MODULATED_MAPS:
            rows = slice(span.row, span.row + 5)
            assert torch.equal(together.rows[name][rows], alone.rows[name][rows])
    assert torch.equal(together.rows["sharp"][20:22], TABLE[[0, 0]])
