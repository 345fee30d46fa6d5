"""A run takes turns in order, a few at once, keeps what it has and leaves out what it kept before."""

import asyncio
from pathlib import Path
from typing import Any

import pytest

from loadtests.quality.observations import Grid, Key, Observation, read
from loadtests.quality.plan import Turn, turns
from loadtests.quality.run import Run
from loadtests.quality.store import Store
from server.samples import Sample
from tests.loadtests import quality_runs
from tests.loadtests.quality_samples import small_sample

GRID = Grid(("single", "qa"), {"plain": (500, 2000), "gold": (500, 2000)})
SETTING = quality_runs.setting(methods=GRID.methods)


class Answering:
    """Answers at once and notes what it was asked, and how many at most were asked together."""

    def __init__(self, fails_at: int | None = None, refuses: str | None = None) -> None:
        self.asked: list[Key] = []
        self.together = self.most = 0
        self.fails_at, self.refuses = fails_at, refuses

    async def observe(self, sample: Sample, key: Key) -> Observation | None:
        self.asked.append(key)
        if len(self.asked) == self.fails_at:
            raise RuntimeError("the server is gone")
        self.together += 1
        self.most = max(self.most, self.together)
        await asyncio.sleep(0.001)
        self.together -= 1
        if key.method == self.refuses:
            return None
        named: dict[str, Any] = {"task": key.task, "length": key.length}
        return Observation(**quality_runs.line(key.method, key.number, -1.0, **named))


async def fill(path: Path, observer: Answering, *, at_once: int = 1, seconds: float = 60) -> set[Key]:
    store = Store.open(path, SETTING)
    made: list[Turn] = []

    def make(turn: Turn) -> Sample:
        made.append(turn)
        return small_sample()

    await Run(store, turns(GRID, 2), make, at_once, seconds).fill(observer, "served")
    assert len(made) == len(set(made))
    return store.seen


EVERY = [key for turn in turns(GRID, 2) for key in turn.keys]


async def test_one_at_a_time_goes_by_the_plan(tmp_path: Path) -> None:
    observer = Answering()
    assert await fill(tmp_path / "run", observer) == set(EVERY)
    assert observer.asked == EVERY


async def test_samples_are_asked_together_but_the_methods_of_one_in_turn(tmp_path: Path) -> None:
    observer = Answering()
    assert await fill(tmp_path / "run", observer, at_once=3) == set(EVERY)
    assert observer.most == 3
    for turn in turns(GRID, 2):
        of_turn = [key for key in observer.asked if key in turn.keys]
        assert of_turn == turn.keys


async def test_a_second_run_makes_what_is_left(tmp_path: Path) -> None:
    first, second = Answering(fails_at=6), Answering()
    with pytest.raises(RuntimeError, match="gone"):
        await fill(tmp_path / "run", first)
    assert [found.key for found in read(tmp_path / "run").observations] == EVERY[:5]
    await fill(tmp_path / "run", second)
    assert second.asked == EVERY[5:]
    assert [found.key for found in read(tmp_path / "run").observations] == EVERY


async def test_nothing_begins_when_the_time_is_over(tmp_path: Path) -> None:
    observer = Answering()
    assert await fill(tmp_path / "run", observer, seconds=0) == set()
    assert observer.asked == []


async def test_what_a_method_cannot_be_asked_is_left_out(tmp_path: Path) -> None:
    found = await fill(tmp_path / "run", Answering(refuses="gold"))
    assert found == {key for key in EVERY if key.method == "plain"}
