"""The file that a run appends to, and that the next run of the same setting goes on with."""

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from cache.whole_file import check_writable
from loadtests.quality.observations import Key, Observation, read


class SettingError(ValueError):
    """A file of another setting: `path`, and the `names` of what differs."""

    def __init__(self, path: Path, names: tuple[str, ...]) -> None:
        super().__init__(
            f"{path} holds a run of another setting ({', '.join(names)} differ); "
            "go on with the same, or name another --out"
        )
        self.path = path
        self.names = names


@dataclass(frozen=True, slots=True)
class Store:
    """A result file, open to more; `seen` is what it holds."""

    path: Path
    seen: set[Key]

    @staticmethod
    def open(path: Path, setting: Mapping[str, Any]) -> "Store":
        """Begins a file with its setting, or goes on with one of the same setting.

        What an interruption left of a last line is cut off; a file that no run left is not touched. Raises
        SettingError, ObservationError where the file cannot be read, and OSError.
        """
        path.parent.mkdir(parents=True, exist_ok=True)
        check_writable(path)
        if _begins(path, _line(setting)):
            path.write_text(_line(setting), encoding="utf-8")
            return Store(path, set())
        run = read(path)
        asked = json.loads(_line(setting))
        names = sorted(run.setting.keys() | asked.keys())
        other = tuple(name for name in names if run.setting.get(name) != asked.get(name))
        if other:
            raise SettingError(path, other)
        _cut_unfinished(path)
        return Store(path, {observation.key for observation in run.observations})

    def add(self, observation: Observation) -> None:
        """Appends one line, at once on disk."""
        with self.path.open("a", encoding="utf-8") as file:
            file.write(_line(asdict(observation)))
        self.seen.add(observation.key)


def _line(content: Mapping[str, Any]) -> str:
    return json.dumps(content, ensure_ascii=False) + "\n"


def _begins(path: Path, first: str) -> bool:
    """Whether a file is still to be begun: nothing is there, or what was written of its first line."""
    return not path.exists() or first.encode().startswith(path.read_bytes())


def _cut_unfinished(path: Path) -> None:
    """Removes what stands behind the last whole line."""
    with path.open("r+b") as file:
        file.truncate(file.read().rfind(b"\n") + 1)
