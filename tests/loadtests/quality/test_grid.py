"""The declared grid: main methods everywhere, the others at one length, all of them everywhere when full."""

import pytest

from loadtests.quality.grid import GridError, check_fitting, grid, lengths, part
from loadtests.quality.methods import MAIN, METHODS, SOURCES
from loadtests.quality.warping import BASELINES
from server.samples import KINDS


def test_main_methods_are_at_every_length_and_the_others_at_one() -> None:
    found = grid(KINDS, (500, 1000, 2000, 4000), full=False)
    assert found.tasks == KINDS
    assert set(found.methods) == {*METHODS, *SOURCES, *BASELINES}
    for method, at in found.methods.items():
        assert at == ((500, 1000, 2000, 4000) if method in MAIN else (2000,))


def test_full_adds_the_rest_up_to_the_window() -> None:
    known = lengths(8192, full=True)
    assert known == (500, 1000, 2000, 4000, 7680)
    assert set(grid(KINDS, known, full=True).methods.values()) == {known}
    assert lengths(32768, full=True) == (500, 1000, 2000, 4000, 8000, 16000, 32256)


@pytest.mark.parametrize(("window", "known"), [(8192, (500, 1000, 2000, 4000)), (2048, (500, 1000))])
def test_contexts_fit_the_window(window: int, known: tuple[int, ...]) -> None:
    assert lengths(window, full=False) == known


def test_a_window_without_room_is_refused() -> None:
    with pytest.raises(GridError, match="1000"):
        lengths(1000, full=True)


def test_of_other_lengths_the_one_nearest_to_the_ablations_is_theirs() -> None:
    assert grid(("niah",), (700, 3000), full=False).methods["t_0"] == (3000,)


def test_chosen_methods_are_asked_everywhere_beside_plain() -> None:
    assert grid(KINDS, (500, 2000), full=False, chosen=("lexical", "plain", "qgpm")).methods == {
        "plain": (500, 2000),
        "lexical": (500, 2000),
        "qgpm": (500, 2000),
    }


def test_a_part_keeps_the_methods_of_one_kind() -> None:
    whole = grid(KINDS, (500, 2000), full=False)
    assert tuple(part(whole, BASELINES).methods) == BASELINES
    assert tuple(part(whole, METHODS).methods) == tuple(METHODS)


def test_samples_of_a_data_set_may_fill_the_window_but_not_more() -> None:
    check_fitting((4096, 8192), 8192)
    with pytest.raises(GridError, match="8,193 tokens do not fit into a window of 8,192"):
        check_fitting((8193,), 8192)
