"""A table of measured costs: printed, kept in a file, and shown in the documentation."""

import json
from dataclasses import asdict, dataclass
from pathlib import Path

from pydantic import TypeAdapter
from rich.console import Console
from rich.table import Table

from cache import whole_file

_WIDTH = 120


@dataclass(frozen=True, slots=True)
class CostTable:
    """All of it texts: `title`, what was measured and where; `head`; `rows`, whose first cells are words."""

    title: str
    head: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]

    @staticmethod
    def read(path: Path) -> "CostTable | None":
        """What `save` left; None where nothing was measured. Raises ValueError for another file."""
        return _STORED.validate_json(path.read_bytes()) if path.exists() else None

    def save(self, path: Path) -> None:
        """Write JSON. Raises OSError."""
        whole_file.write(path, json.dumps(asdict(self), indent=1, ensure_ascii=False) + "\n")

    def tell(self, out: Path | None) -> None:
        """Print it, and save it where a file is named."""
        self.show()
        if out is not None:
            self.save(out)

    def show(self) -> None:
        """Print it."""
        shown = Table(title=self.title)
        for index, name in enumerate(self.head):
            shown.add_column(name, justify="left" if index == 0 else "right", no_wrap=True)
        for row in self.rows:
            shown.add_row(*row)
        Console(width=_WIDTH).print(shown)


_STORED = TypeAdapter(CostTable)
