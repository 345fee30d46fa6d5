"""Where samples come from: the project's own evaluation split, or a user's data set."""

from collections.abc import Callable
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import cast

from loadtests.quality import datasets
from loadtests.quality.datasets import Dataset
from server.samples import KINDS, Kind, Sample, Split, sample

SPLIT: Split = "evaluation"
DIGESTED = 40
"""Samples of a task that tell how samples are made; the shortest ones, which take no time."""


@dataclass(frozen=True, slots=True)
class Evaluation:
    """Samples of the split that nothing was chosen by, without end."""

    seed: int
    lengths: tuple[int, ...]
    count_tokens: Callable[[str], int]
    tasks: tuple[str, ...] = KINDS
    count: int | None = None

    def sample(self, task: str, length: int, number: int) -> Sample:
        """One of them, the same for the same arguments; raises SamplesError."""
        return sample(SPLIT, cast(Kind, task), length, number, self.seed, self.count_tokens)


def source(
    dataset: Path | None, lengths: tuple[int, ...], seed: int, count_tokens: Callable[[str], int]
) -> Dataset:
    """The samples of a run, `lengths` in tokens by `count_tokens`; raises DatasetError."""
    if dataset is None:
        return Evaluation(seed, lengths, count_tokens)
    return datasets.read(dataset, lengths, seed, count_tokens)


def digest(samples: Dataset) -> str:
    """Of the first samples of every task: another one where the same arguments give other samples.

    Errors are those of `sample`.
    """
    found = sha256()
    for task in samples.tasks:
        for number in range(DIGESTED if samples.count is None else min(DIGESTED, samples.count)):
            found.update(repr(samples.sample(task, min(samples.lengths), number)).encode())
    return found.hexdigest()[:16]
