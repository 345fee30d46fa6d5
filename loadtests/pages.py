"""Pages of the documentation that a command makes, with the plots that they show."""

import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True)
class Pages:
    """What lies in a folder of documentation, by path from there, the page first.

    `folder`: where nothing but this page's plots ends in .svg; `command`: what makes them, for those who read
    that they are out of date.
    """

    docs: Path
    folder: str
    command: str

    def write(self, made: Mapping[str, str]) -> int:
        """Write the texts, remove plots that the page no longer shows, and say so; 0."""
        (self.docs / self.folder).mkdir(parents=True, exist_ok=True)
        for stale in self._stale_plots(made):
            stale.unlink()
        for name, text in made.items():
            (self.docs / name).write_text(text, encoding="utf-8")
        print(f"{self.docs / next(iter(made))}, and {len(made) - 1} plots")
        return 0

    def check(self, made: Mapping[str, str]) -> int:
        """Compare and write nothing: 1 where anything differs, which is named on standard error, else 0."""
        different = [
            name
            for name, text in made.items()
            if not (self.docs / name).is_file() or (self.docs / name).read_text(encoding="utf-8") != text
        ]
        different += [str(path.relative_to(self.docs)) for path in self._stale_plots(made)]
        for name in different:
            print(f"{self.docs / name} is out of date: {self.command}", file=sys.stderr)
        return 1 if different else 0

    def _stale_plots(self, made: Mapping[str, str]) -> list[Path]:
        plots = sorted((self.docs / self.folder).glob("*.svg"))
        return [path for path in plots if f"{self.folder}/{path.name}" not in made]
