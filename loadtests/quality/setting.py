"""What a run is a measurement of: the first line of its file."""

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from hashlib import sha256
from pathlib import Path
from typing import Any

from cache.head_profile import HeadProfile, fingerprint
from loadtests.machine import machine, versions
from loadtests.quality.datasets import Dataset, files
from loadtests.quality.methods import CHANCE, GUARDED
from loadtests.quality.options import Options
from loadtests.quality.source import digest

FOLDER = Path("measured")
"""Where files go that no `--out` names."""


@dataclass(frozen=True, slots=True)
class Setting:
    """All that decides what is observed and on what, but for how much of it.

    `defaults`: QGPM's, for methods that do not say; `head_profile`: digest of the one in use; `guard` and
    `relevance`: of it, where a method is guarded; `samples`: of `source.digest`; `grid`: as
    `observations.Grid`.
    """

    model: str
    fingerprint: str
    head_profile: str
    defaults: Mapping[str, Any]
    guard: Mapping[str, Any] | None
    relevance: Mapping[str, float] | None
    seed: int
    samples: str
    dataset: str | None
    dtype: str
    at_once: int
    flags: tuple[str, ...]
    grid: Mapping[str, Any]
    machine: str
    versions: Mapping[str, str]

    @staticmethod
    def of(
        options: Options, folder: Path, heads: HeadProfile, samples: Dataset, grid: Mapping[str, Any]
    ) -> "Setting":
        """For the model in a folder.

        Raises HeadProfileError where it has no fingerprint, and what the making of samples does.
        """
        guards = bool({*GUARDED, *CHANCE} & grid["methods"].keys())
        return Setting(
            model=folder.resolve().name,
            fingerprint=fingerprint(folder),
            head_profile=heads.digest.hex(),
            defaults=asdict(heads.defaults),
            guard=asdict(heads.guard) if heads.guard and guards else None,
            relevance=heads.relevance if guards else None,
            seed=options.seed,
            samples=digest(samples),
            dataset=None if options.dataset is None else identity(options.dataset),
            dtype=options.dtype,
            at_once=options.at_once,
            flags=options.flags,
            grid=grid,
            machine=machine(),
            versions=versions(),
        )

    def to_json(self) -> dict[str, Any]:
        """The line."""
        return asdict(self)

    @property
    def path(self) -> Path:
        """A file that only runs of this setting share."""
        digest = sha256(json.dumps(self.to_json(), sort_keys=True).encode()).hexdigest()[:8]
        return FOLDER / f"quality-{self.model}-{digest}.jsonl"


def identity(dataset: Path) -> str:
    """A data set's name and a digest of its files: RULER's are all called the same, and may be made anew."""
    each = b"".join(sha256(path.read_bytes()).digest() for path in files(dataset))
    return f"{dataset.name}, sha256 {sha256(each).hexdigest()[:8]}"
