"""Samples from files that users hold: RULER's and NoLiMa's own formats."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Protocol

from loadtests.quality.dataset_error import DatasetError
from loadtests.quality.needle_set import NeedleSet, book_paths
from loadtests.quality.ruler import RulerFile
from server.samples import Sample


class Dataset(Protocol):
    """Samples by task, length and number; `count`: how many a cell has, None where there is no end."""

    @property
    def tasks(self) -> tuple[str, ...]:
        """What the samples' kinds are called."""

    @property
    def lengths(self) -> tuple[int, ...]:
        """Those of the contexts, in tokens."""

    @property
    def count(self) -> int | None:
        """How many samples a task has at one length."""

    def sample(self, task: str, length: int, number: int) -> Sample:
        """One of them, the same for the same arguments."""


def read(path: Path, lengths: Sequence[int], seed: int, count_tokens: Callable[[str], int]) -> Dataset:
    """The data set of a file: `.jsonl` as RULER writes it, `.json` a needle set of NoLiMa's.

    RULER's prompts are as long as they are; of NoLiMa's texts samples of `lengths` are drawn by `seed`.
    Raises DatasetError.
    """
    if path.suffix == ".jsonl":
        return RulerFile.read(path)
    if path.suffix == ".json":
        return NeedleSet.read(path, tuple(lengths), seed, count_tokens)
    raise DatasetError(f"{path} is neither RULER's .jsonl nor a needle set of NoLiMa's, .json")


def files(path: Path) -> list[Path]:
    """All that the data set of a file is read from, the file first. Raises DatasetError."""
    return [path, *(book_paths(path.parent) if path.suffix == ".json" else ())]
