"""Warps against their papers' formulas, pair by pair."""

from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from positional.warps import (
    Plain,
    Rerope,
    Scaled,
    SelfExtend,
    String,
    Warp,
    WarpError,
    displacement,
    ms_poe,
    pair_displacement,
    position_awareness,
)


def table(warp: Warp, length: int) -> torch.Tensor:
    """The displacements of a prompt's pairs; those of keys behind the query are 0."""
    places = torch.arange(length)
    return displacement(warp, places, places).tril()


def last_row(warp: Warp, length: int) -> list[float]:
    row: list[float] = table(warp, length)[-1].tolist()
    return row


def test_string_drops_the_longest_distances_and_shifts_the_others_behind_them() -> None:
    # The paper's figure 5: nine tokens, S = 3; without and with a window of 1.
    assert last_row(String(shift=3, window=0), 9) == [5, 4, 3, 2, 1, 0, 2, 1, 0]
    assert last_row(String(shift=3, window=1), 9) == [6, 5, 4, 3, 2, 1, 2, 1, 0]


@given(st.integers(1, 60), st.integers(0, 20), st.integers(1, 40))
def test_string_is_its_equation_4(length: int, window: int, more: int) -> None:
    shift = window + more
    expected = [
        [float(m - n - shift + window if m - n >= shift else m - n) if n <= m else 0.0 for n in range(length)]
        for m in range(length)
    ]
    assert table(String(shift, window), length).tolist() == expected


def test_string_takes_a_third_of_the_prompt() -> None:
    assert String.at(4000) == String(shift=1333, window=128)
    with pytest.raises(WarpError, match="shift: must exceed the window of 128 tokens"):
        String.at(386)


def test_self_extend_groups_what_is_beyond_the_neighbours() -> None:
    assert last_row(SelfExtend(group=2, window=4), 10) == [6, 6, 5, 5, 4, 4, 3, 2, 1, 0]


@given(st.integers(1, 60), st.integers(1, 6), st.integers(1, 20))
def test_self_extend_is_its_pseudocode(length: int, group: int, window: int) -> None:
    def expected(i: int, j: int) -> int:
        if i - j < window:
            return max(0, i - j)
        return (i // group + window - window // group) - j // group

    table_of_pairs = [[float(expected(i, j)) for j in range(length)] for i in range(length)]
    assert table(SelfExtend(group, window), length).tolist() == table_of_pairs


@given(st.integers(5, 100_000), st.integers(2048, 16_384))
def test_self_extends_group_reaches_the_prompt(length: int, native: int) -> None:
    warp = SelfExtend.at(length, native)
    assert (native - warp.window) * warp.group + warp.window >= length
    smaller = (native - warp.window) * (warp.group - 1) + warp.window
    assert warp.group == 2 or smaller < length


def test_self_extend_changes_prompts_inside_the_window_too() -> None:
    assert SelfExtend.at(2000, 8192) == SelfExtend(group=2, window=500)
    assert SelfExtend.at(8000, 8192) == SelfExtend(group=2, window=1024)
    assert SelfExtend.at(20_000, 8192) == SelfExtend(group=3, window=1024)
    with pytest.raises(WarpError, match="native"):
        SelfExtend.at(8000, 1024)


def test_rerope_keeps_neighbours_and_shortens_what_is_beyond() -> None:
    # The lesson's example: within 4 tokens 3 stays 3; halved beyond, 10 becomes 7; rectified, 4.
    assert last_row(Rerope(window=4, leak=0.5), 11) == [7, 6.5, 6, 5.5, 5, 4.5, 4, 3, 2, 1, 0]
    assert last_row(Rerope(window=4), 11) == [4, 4, 4, 4, 4, 4, 4, 3, 2, 1, 0]


@given(st.integers(0, 10_000), st.integers(1, 64), st.integers(1, 64))
def test_a_leak_is_position_interpolation_beyond_the_window(distance: int, window: int, factor: int) -> None:
    leaky = pair_displacement(Rerope(window, 1 / factor), torch.tensor(distance), torch.tensor(0))
    expected = distance if distance < window else window + (distance - window) / factor
    assert leaky.item() == pytest.approx(expected, abs=1e-9)
    full = pair_displacement(Rerope(window, leak=1.0), torch.tensor(distance), torch.tensor(0))
    assert full.item() == distance


@given(st.integers(5, 100_000), st.integers(2048, 16_384))
def test_a_leak_ends_the_prompt_within_what_training_saw(length: int, native: int) -> None:
    farthest = pair_displacement(Rerope.leaky(length, native), torch.tensor(length), torch.tensor(0))
    assert farthest.item() <= native + 1e-6


def test_rerope_has_self_extends_neighbours() -> None:
    assert Rerope.rectified(2000) == Rerope(500)
    assert Rerope.leaky(2000, 8192) == Rerope(500, leak=0.5)
    assert Rerope.leaky(20_000, 8192) == Rerope(1024, leak=1 / 3)
    with pytest.raises(WarpError, match="native"):
        Rerope.leaky(8000, 1024)


def test_no_warp_but_a_plain_one_adds_up() -> None:
    """What stands between two tokens and a third is not what stands between the first and the third."""
    whole, half = torch.tensor(20), torch.tensor(10)
    for warp in (String(9, 3), SelfExtend(3, 4), Rerope(4, 0.5)):
        twice = pair_displacement(warp, whole, half) + pair_displacement(warp, half, torch.tensor(0))
        assert pair_displacement(warp, whole, torch.tensor(0)) != twice


def test_scaled_divides_distances() -> None:
    assert last_row(Scaled(1.0), 7) == [6, 5, 4, 3, 2, 1, 0]
    assert last_row(Scaled(2.0), 7) == [3, 2.5, 2, 1.5, 1, 0.5, 0]


def test_ms_poe_leaves_the_most_aware_heads_nearest_to_plain() -> None:
    awareness = torch.tensor([0.1, 0.3, 0.1, 0.2], dtype=torch.float64)
    assert [warp.ratio for warp in ms_poe(awareness)] == pytest.approx([1.6, 1.2, 1.8, 1.4])
    assert ms_poe(torch.ones(1)) == (Scaled(1.2),)


def test_awareness_is_the_share_of_keys_far_above_the_mean() -> None:
    spread = torch.full((12,), 1 / 12)
    peaked = torch.tensor([0.5, 0.3, *[0.02] * 10])
    on_the_threshold = torch.tensor([3.0, 0.0, 0.0, 1.0, 0.0, 2.0])
    assert position_awareness(torch.stack([spread, peaked])).tolist() == pytest.approx([0, 2 / 12])
    assert position_awareness(on_the_threshold[None]).tolist() == pytest.approx([1 / 6])


@pytest.mark.parametrize("warp", [Plain(), String(9, 3), SelfExtend(3, 4), Rerope(4, 0.5), Scaled(1.8)])
def test_neighbours_stay_in_order_and_a_token_stands_at_itself(warp: Warp) -> None:
    pairs = table(warp, 40)
    assert pairs.diagonal().eq(0).all()
    assert (pairs[-1, -3:-1] > pairs[-1, -2:]).all()


@pytest.mark.parametrize(
    ("make", "field"),
    [
        (lambda: String(3, -1), "window"),
        (lambda: String(3, 3), "shift"),
        (lambda: SelfExtend(0, 4), "group"),
        (lambda: SelfExtend(2, 0), "window"),
        (lambda: Rerope(0), "window"),
        (lambda: Rerope(4, 1.5), "leak"),
        (lambda: Scaled(0.0), "ratio"),
    ],
)
def test_a_warp_that_cannot_be_is_refused(make: Any, field: str) -> None:
    with pytest.raises(WarpError) as error:
        make()
    assert error.value.field == field
