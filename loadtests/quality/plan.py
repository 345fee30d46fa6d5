"""Which observations a run makes, and in which order."""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import count

from loadtests.quality.observations import Grid, Key


@dataclass(frozen=True, slots=True)
class Turn:
    """One sample and the methods that it is asked by, one after the other, since they share its blocks."""

    task: str
    length: int
    number: int
    methods: tuple[str, ...]

    @property
    def keys(self) -> list[Key]:
        """What is observed, in order."""
        return [Key(self.task, self.length, method, self.number) for method in self.methods]


def turns(grid: Grid, samples_per_cell: int | None = None) -> Iterator[Turn]:
    """All turns, sample number by number, so that every cell has about as many when time runs out.

    Within a number, methods that the grid has at most lengths come first, and among them the shorter
    lengths. Without `samples_per_cell` there is no end.
    """
    ranked = sorted({len(lengths) for lengths in grid.methods.values()}, reverse=True)
    if not ranked:
        return
    for number in count() if samples_per_cell is None else range(samples_per_cell):
        for lengths_each in ranked:
            part = {m: lengths for m, lengths in grid.methods.items() if len(lengths) == lengths_each}
            for length in sorted({length for lengths in part.values() for length in lengths}):
                methods = tuple(method for method, lengths in part.items() if length in lengths)
                for task in grid.tasks:
                    yield Turn(task, length, number, methods)
