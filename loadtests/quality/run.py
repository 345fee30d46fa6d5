"""Fills a result file: turn by turn, a few at once, until the time is over."""

import asyncio
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Protocol

from tqdm import tqdm

from loadtests.quality.observations import Key, Observation
from loadtests.quality.plan import Turn
from loadtests.quality.store import Store
from server.samples import Sample

_BAR = "{l_bar}{bar}| {n_fmt}/{total_fmt} s{postfix}"


class Observer(Protocol):
    """What answers samples."""

    async def observe(self, sample: Sample, key: Key) -> Observation | None:
        """How the key's method answers the sample; None where it cannot be asked by it."""


@dataclass(frozen=True, slots=True)
class Run:
    """`turns` to take, of which `at_once` are taken together, each sample made on the way.

    `seconds`: no observation begins later.
    """

    store: Store
    turns: Iterator[Turn]
    make: Callable[[Turn], Sample]
    at_once: int
    seconds: float

    async def fill(self, observer: Observer, name: str) -> None:
        """Adds what the store has not seen until the turns or the time end; `name` stands before the bar.

        Raises what the observer does; what was observed before is kept.
        """
        with tqdm(desc=name, total=round(self.seconds), bar_format=_BAR) as bar:
            end = time.monotonic() + self.seconds
            await asyncio.gather(*(self._work(observer, end, bar) for _ in range(self.at_once)))

    async def _work(self, observer: Observer, end: float, bar: "tqdm[Any]") -> None:
        for turn in self.turns:
            keys = [key for key in turn.keys if key not in self.store.seen]
            if not keys:
                continue
            sample = self.make(turn)
            for key in keys:
                if time.monotonic() >= end:
                    return
                observation = await observer.observe(sample, key)
                if observation is not None:
                    self.store.add(observation)
                self._show(bar, end, key)

    def _show(self, bar: "tqdm[Any]", end: float, key: Key) -> None:
        bar.n = round(min(self.seconds - end + time.monotonic(), self.seconds))
        bar.set_postfix_str(
            f"{len(self.store.seen)} observations; sample {key.number} of {key.task} at {key.length:,}"
        )
