"""The file that drills leave: one entry each, kept from run to run."""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from cache.whole_file import write

REPORTED = Path("docs/results/drills.json")


@dataclass(slots=True)
class File:
    """What each drill found when it ran last, by name; JSON types only."""

    path: Path
    drills: dict[str, dict[str, Any]] = field(default_factory=dict)

    @staticmethod
    def read(path: Path) -> "File":
        """What lies there; nothing where there is no file. Raises ValueError for another kind of file."""
        if not path.exists():
            return File(path)
        return File(path, dict(json.loads(path.read_text(encoding="utf-8"))["drills"]))

    def note(self, name: str, entry: Mapping[str, Any]) -> None:
        """Put a drill's entry in place of its last one, and write the file, whole or not at all."""
        self.drills[name] = dict(entry)
        self.path.parent.mkdir(parents=True, exist_ok=True)
        write(self.path, json.dumps({"drills": self.drills}, indent=2) + "\n")
