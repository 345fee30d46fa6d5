"""What a run observed, cell by cell (task, length, method), and beside another method on the same samples."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from loadtests.quality.observations import Observation, Run
from loadtests.quality.statistics import Interval, Mean, Outcomes, below, holm

PLAIN = "plain"
RETRIEVAL = ("single", "multi_key", "multi_value", "indirect")
"""The tasks where a fact is to be found; the others ask for more."""

Samples = Mapping[int, Observation]
"""Observations of one cell by the sample's number."""


@dataclass(frozen=True, slots=True)
class Comparison:
    """A method beside `base` on the `pairs` samples that both answered, in so many `cells`.

    `logprob` (nats) and `accuracy` (shares) are of the method's value less the base's.
    """

    base: str
    cells: int
    pairs: int
    logprob: Interval
    accuracy: Interval
    outcomes: Outcomes

    @staticmethod
    def of(base: str, groups: Sequence[Sequence[tuple[Observation, Observation]]]) -> "Comparison":
        """Of groups of pairs (method's, base's), at least one pair each; every group counts alike."""
        logprobs = [[ours.logprob - theirs.logprob for ours, theirs in group] for group in groups]
        accuracies = [[ours.correct - theirs.correct for ours, theirs in group] for group in groups]
        differences = [difference for group in logprobs for difference in group]
        return Comparison(
            base,
            len(groups),
            len(differences),
            Interval.of(logprobs),
            Interval.of(accuracies),
            Outcomes.of(differences),
        )


@dataclass(frozen=True, slots=True)
class Cell:
    """One task at one length by one method, and beside plain (None for plain itself or without pairs).

    `below_plain` is the p-value of a mean log-probability below plain's, by Holm's steps over all cells of
    the method.
    """

    task: str
    length: int
    method: str
    logprob: Mean
    accuracy: Mean
    beside_plain: Comparison | None
    below_plain: float | None

    @property
    def name(self) -> str:
        """The cell, for people."""
        return f"{self.task} at {self.length:,} tokens"


class Cells:
    """All cells of a run that hold observations."""

    def __init__(self, run: Run) -> None:
        self.run = run
        self._samples: dict[tuple[str, int, str], dict[int, Observation]] = {}
        for observation in run.observations:
            key = observation.task, observation.length, observation.method
            self._samples.setdefault(key, {})[observation.number] = observation
        self._found: dict[str, list[Cell]] = {}
        seen = dict.fromkeys((*run.grid.cells(), *self._samples))
        self.tasks = _unique(task for task, _, _ in seen)
        self.lengths = tuple(sorted({length for _, length, _ in seen}))
        self.methods = _unique(method for _, _, method in seen)

    def samples(self, task: str, length: int, method: str) -> Samples:
        """What was observed there, by number; possibly nothing."""
        return self._samples.get((task, length, method), {})

    def missing(self) -> list[tuple[str, int, str]]:
        """Cells of the declared grid, as (task, length, method), without any observation."""
        return [cell for cell in self.run.grid.cells() if not self.samples(*cell)]

    def of(self, method: str) -> list[Cell]:
        """The cells of a method that hold observations, by task and length."""
        if method not in self._found:
            self._found[method] = self._of(method)
        return self._found[method]

    def compare(
        self, method: str, tasks: Iterable[str], lengths: Iterable[int], base: str = PLAIN
    ) -> Comparison | None:
        """The method beside another over the cells that both observed, every cell alike; None without any."""
        lengths = tuple(lengths)
        groups = [self.pairs(task, length, method, base) for task in tasks for length in lengths]
        groups = [group for group in groups if group]
        return Comparison.of(base, groups) if groups else None

    def _of(self, method: str) -> list[Cell]:
        found = [
            self._cell(task, length, method)
            for task in self.tasks
            for length in self.lengths
            if self.samples(task, length, method)
        ]
        tested = [i for i, cell in enumerate(found) if cell.below_plain is not None]
        adjusted = holm([p for cell in found if (p := cell.below_plain) is not None])
        for i, p in zip(tested, adjusted, strict=True):
            found[i] = replace(found[i], below_plain=p)
        return found

    def _cell(self, task: str, length: int, method: str) -> Cell:
        samples = self.samples(task, length, method).values()
        pairs = [] if method == PLAIN else self.pairs(task, length, method, PLAIN)
        return Cell(
            task,
            length,
            method,
            Mean.of([sample.logprob for sample in samples]),
            Mean.of([sample.correct for sample in samples]),
            Comparison.of(PLAIN, [pairs]) if pairs else None,
            None if method == PLAIN else self.p_below(task, length, method),
        )

    def p_below(self, task: str, length: int, method: str, base: str = PLAIN) -> float | None:
        """The p-value of a mean log-probability below the base's in one cell; None without pairs."""
        pairs = self.pairs(task, length, method, base)
        return below([ours.logprob - theirs.logprob for ours, theirs in pairs]) if pairs else None

    def pairs(self, task: str, length: int, method: str, base: str) -> list[tuple[Observation, Observation]]:
        """What both observed on the same samples of one cell, by number."""
        ours, theirs = self.samples(task, length, method), self.samples(task, length, base)
        return [(ours[number], theirs[number]) for number in sorted(ours.keys() & theirs.keys())]


def _unique(names: Iterable[str]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(names))
