"""Tables of random numbers stand for the stock rows: whatever is copied from them cannot be computed."""

import pytest
import torch

from cache.step_phases import MODULATED_MAPS, ModulatedSpan, StepPhases
from positional.coordinates import Coordinates
from positional.modulation import Modulation
from positional.phases import rotation_rows
from positional.profile import Profile

PROFILE = Profile.rope(10_000.0, 8)
TABLE = torch.rand(100, 8)
MODULATION = Modulation((0, 10, 30, 50), (1.0, 0.4, 0.7, 1.0), (1.0, 1.0, 0.3, 1.0), 20.0, 0.5, 0.1)
COORDINATES = Coordinates.from_modulation(MODULATION, PROFILE)


def phases(max_tokens: int = 32, dtype: torch.dtype = torch.float32) -> StepPhases:
    return StepPhases(TABLE, max_tokens, PROFILE, dtype)


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
    made.fill(positions, [ModulatedSpan(COORDINATES, 20, 70, 2), ModulatedSpan(COORDINATES, 0, 5, 20)])
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
    made.fill(torch.arange(60, 80), [ModulatedSpan(COORDINATES, 0, 60, 20)])
    made.fill(torch.arange(60, 80), [])
    for rows in made.rows.values():
        assert torch.equal(rows[:20], TABLE[60:80])


def test_a_span_inside_the_protected_prefix_stays_stock() -> None:
    made = phases()
    made.fill(torch.arange(10), [ModulatedSpan(COORDINATES, 0, 0, 10)])
    for rows in made.rows.values():
        assert torch.equal(rows[:10], TABLE[:10])


def test_standard_coordinates_are_stock_to_the_end() -> None:
    standard = Coordinates.from_modulation(Modulation((0,), (1.0,), (1.0,), 20.0, 0.5, 0.1), PROFILE)
    made = phases()
    made.fill(torch.arange(70, 90), [ModulatedSpan(standard, 0, 70, 20)])
    for rows in made.rows.values():
        assert torch.equal(rows[:20], TABLE[70:90])


def test_token_zero_is_stock_where_the_first_sentence_is_weak() -> None:
    weak = Coordinates.from_modulation(Modulation((0, 20), (0.3, 1.0), (0.3, 1.0), 20.0, 0.5, 0.1), PROFILE)
    made = phases()
    made.fill(torch.arange(8), [ModulatedSpan(weak, 0, 0, 8)])
    for name in MODULATED_MAPS:
        assert torch.equal(made.rows[name][0], TABLE[0])
        expected = rotation_rows(weak.positions(name, [1, 7]), PROFILE, torch.float32)
        assert torch.equal(made.rows[name][[1, 7]], expected)


def test_steps_write_into_the_same_memory() -> None:
    made = phases()
    places = [rows.data_ptr() for rows in made.rows.values()]
    for first in (0, 31, 60):
        made.fill(torch.arange(first, first + 32), [ModulatedSpan(COORDINATES, 0, first, 32)])
        made.fill(torch.arange(first, first + 1), [])
    assert [rows.data_ptr() for rows in made.rows.values()] == places
