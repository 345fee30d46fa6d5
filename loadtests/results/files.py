"""The files that the measurements left."""

from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from pydantic import TypeAdapter, ValidationError

from cache import head_profile
from cache.head_profile import HeadProfile
from loadtests.quality import observations
from loadtests.quality.observations import Run
from loadtests.results.bench_file import Bench
from loadtests.results.load_file import Load

T = TypeVar("T")
QUALITY, CHANCE, BENCH, LOAD = "quality.jsonl", "chance.jsonl", "bench.json", "load.json"


class ResultFileError(ValueError):
    """A result file cannot be read: which, and why."""

    def __init__(self, path: Path, message: str) -> None:
        super().__init__(f"{path}: {message}")
        self.path = path
        self.message = message


@dataclass(frozen=True, slots=True)
class Files:
    """What there is; None for what was not measured. `profile` is the head profile that served."""

    quality: Run | None
    chance: Run | None
    bench: Bench | None
    load: Load | None
    profile: HeadProfile | None


_BENCH: TypeAdapter[Bench] = TypeAdapter(Bench)
_LOAD: TypeAdapter[Load] = TypeAdapter(Load)


def read(folder: Path) -> Files:
    """Everything that lies in a folder, and the shipped head profile of the model of its quality run.

    Without a quality run the first shipped profile. Raises ResultFileError, ObservationError and OSError.
    """
    run = _run(folder / QUALITY)
    return Files(
        run, _run(folder / CHANCE), _json(folder / BENCH, _BENCH), _json(folder / LOAD, _LOAD), _profile(run)
    )


def _run(path: Path) -> Run | None:
    return observations.read(path) if path.exists() else None


def _json(path: Path, adapter: TypeAdapter[T]) -> T | None:
    if not path.exists():
        return None
    try:
        return adapter.validate_json(path.read_bytes())
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        where = ".".join(str(part) for part in first["loc"])
        raise ResultFileError(path, f"{where}: {first['msg']}" if where else first["msg"]) from error


def _profile(run: Run | None) -> HeadProfile | None:
    shipped = head_profile.shipped()
    if run is None:
        return next(iter(shipped), None)
    return next((one for one in shipped if one.fingerprint == run.setting.get("fingerprint")), None)
