"""Cells fill up evenly: when time runs out, none has more than one sample more than another of its length."""

from collections import Counter
from itertools import islice

from loadtests.quality.observations import Grid, Key
from loadtests.quality.plan import turns

GRID = Grid(("single", "qa"), {"t_0": (2000,), "plain": (500, 2000), "gold": (500, 2000), "one_map": (2000,)})


def keys(samples_per_cell: int) -> list[Key]:
    return [key for turn in turns(GRID, samples_per_cell) for key in turn.keys]


def test_every_cell_gets_every_sample_once() -> None:
    cells = Counter((key.task, key.length, key.method) for key in keys(3))
    assert cells == dict.fromkeys(GRID.cells(), 3)
    assert len(set(keys(3))) == len(keys(3))


def test_a_number_is_asked_everywhere_before_the_next_one() -> None:
    numbers = [key.number for key in keys(3)]
    assert numbers == sorted(numbers)


def test_main_methods_come_before_those_of_one_length_and_short_samples_before_long_ones() -> None:
    assert [(turn.length, turn.task, turn.methods) for turn in turns(GRID, 1)] == [
        (500, "single", ("plain", "gold")),
        (500, "qa", ("plain", "gold")),
        (2000, "single", ("plain", "gold")),
        (2000, "qa", ("plain", "gold")),
        (2000, "single", ("t_0", "one_map")),
        (2000, "qa", ("t_0", "one_map")),
    ]


def test_without_a_number_of_samples_there_is_no_end() -> None:
    assert [turn.number for turn in islice(turns(GRID), 600, 601)] == [100]


def test_a_grid_without_methods_has_no_turns() -> None:
    assert list(turns(Grid(("single",), {}))) == []
