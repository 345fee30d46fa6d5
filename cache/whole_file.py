"""Files that are written whole or not at all."""

import errno
import tempfile
from pathlib import Path


def check_writable(path: Path) -> None:
    """Raises OSError where `write` would, so that long work is not done for nothing."""
    if path.exists() and not path.is_file():
        raise FileExistsError(errno.EEXIST, "exists and is no file", str(path))
    with tempfile.NamedTemporaryFile(dir=path.parent):
        pass


def write(path: Path, text: str) -> None:
    """Writes the file in UTF-8; where that fails, what lay there is kept. Raises OSError."""
    with tempfile.NamedTemporaryFile("w", encoding="utf-8", dir=path.parent, delete=False) as file:
        partial = Path(file.name)
    try:
        partial.write_text(text, encoding="utf-8")
        partial.chmod(0o644)  # temporary files are their owner's alone; results may be shared
        partial.replace(path)
    except BaseException:
        partial.unlink(missing_ok=True)
        raise
