"""The lines of a quality run's file: its setting, then one observation each.

The file is JSON lines. The first is the setting: an object with at least `seed` and `grid`, which is
`{"tasks": [names], "methods": {name: [lengths]}}`, all that the run set out to observe. Every other line is
an `Observation`. Lines are only ever appended, so a last line without an end is what an interruption left.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, NamedTuple

from pydantic import ConfigDict, Field, TypeAdapter, ValidationError, with_config

Share = Annotated[float, Field(ge=0, le=1)]
Count = Annotated[int, Field(ge=0)]


REFERENCE = "reference"
"""The mode of what no server answered, but a transformers model."""


class ObservationError(ValueError):
    """A line of a result file cannot be used: which file, which line (from 1), and why."""

    def __init__(self, path: Path, line: int, message: str) -> None:
        super().__init__(f"{path}:{line}: {message}")
        self.path = path
        self.line = line
        self.message = message


class Key(NamedTuple):
    """What is observed once: one sample by one method."""

    task: str
    length: int
    method: str
    number: int


@with_config(ConfigDict(strict=True, extra="forbid", allow_inf_nan=False))
@dataclass(frozen=True, slots=True)
class Observation:
    """How one method answered one sample.

    `logprob` is of the gold answer, forced, in nats, summed over its `tokens`; `correct` the share of the
    gold answers that occur in the greedy `output`; `evidence_rank` that of the best gold sentence, from 0,
    null where no relevance was read, and `confidence` the guard's in it, null where it judged none; `mode`
    and `reason` what the server says it did; `seconds` of both requests.
    """

    task: str
    length: Count
    number: Count
    depth: Share
    method: str
    logprob: float
    tokens: Count
    correct: Share
    output: str
    prompt_tokens: Count
    cached_tokens: Count
    mode: str
    reason: str | None
    evidence_rank: Count | None
    confidence: Share | None
    seconds: float

    @property
    def key(self) -> Key:
        """What no second line of the same file may observe."""
        return Key(self.task, self.length, self.method, self.number)


@with_config(ConfigDict(extra="forbid"))
@dataclass(frozen=True, slots=True)
class Grid:
    """What a run set out to observe: every task by every method, at the method's lengths."""

    tasks: tuple[str, ...]
    methods: Mapping[str, tuple[int, ...]]

    def cells(self) -> Iterator[tuple[str, int, str]]:
        """Every (task, length, method), methods first, in the order declared."""
        for method, lengths in self.methods.items():
            for task in self.tasks:
                for length in lengths:
                    yield task, length, method


@dataclass(frozen=True, slots=True)
class Run:
    """A result file, read: its setting as it stands, the grid of it, and every observation in order."""

    setting: Mapping[str, Any]
    grid: Grid
    observations: Sequence[Observation]


_OBSERVATION: TypeAdapter[Observation] = TypeAdapter(Observation)
_GRID: TypeAdapter[Grid] = TypeAdapter(Grid)


def read(path: Path) -> Run:
    """Reads a result file; an unfinished last line is left out.

    Raises ObservationError where a line is not what it should be or observes what another has observed,
    and OSError.
    """
    try:
        lines = path.read_text(encoding="utf-8").split("\n")[:-1]
    except UnicodeDecodeError as error:
        raise ObservationError(path, 1, f"is not UTF-8: {error}") from error
    if not lines:
        raise ObservationError(path, 1, "there is no setting")
    setting, grid = _setting(path, lines[0])
    observations = [_observation(path, number, line) for number, line in enumerate(lines[1:], start=2)]
    seen: dict[Key, int] = {}
    for number, observation in enumerate(observations, start=2):
        first = seen.setdefault(observation.key, number)
        if first != number:
            raise ObservationError(path, number, f"observes again what line {first} does: {observation.key}")
    return Run(setting, grid, observations)


def _setting(path: Path, line: str) -> tuple[Mapping[str, Any], Grid]:
    try:
        setting = json.loads(line)
    except ValueError as error:
        raise ObservationError(path, 1, f"is not JSON: {error}") from error
    if not isinstance(setting, dict):
        raise ObservationError(path, 1, "is not a setting")
    try:
        return setting, _GRID.validate_python(setting.get("grid"))
    except ValidationError as error:
        raise ObservationError(path, 1, f"grid: {_first(error)}") from error


def _observation(path: Path, number: int, line: str) -> Observation:
    try:
        return _OBSERVATION.validate_json(line)
    except ValidationError as error:
        raise ObservationError(path, number, _first(error)) from error


def _first(error: ValidationError) -> str:
    first = error.errors(include_url=False)[0]
    where = ".".join(str(part) for part in first["loc"])
    return f"{where}: {first['msg']}" if where else first["msg"]
