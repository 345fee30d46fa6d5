import os
from pathlib import Path

import pytest

from cache.whole_file import check_writable, write


def test_a_file_is_written_whole_and_can_be_shared(tmp_path: Path) -> None:
    path = tmp_path / "found.json"
    for text in ("first", "second, of Żagań\n"):
        check_writable(path)
        write(path, text)
        assert path.read_text(encoding="utf-8") == text
    assert path.stat().st_mode & 0o777 == 0o644
    assert os.listdir(tmp_path) == ["found.json"]


def test_what_cannot_be_written_keeps_what_lay_there(tmp_path: Path) -> None:
    path = tmp_path / "found.json"
    write(path, "first")
    with pytest.raises(UnicodeEncodeError):
        write(path, "half a pair: \ud800")
    assert path.read_text() == "first"
    assert os.listdir(tmp_path) == ["found.json"]


def test_a_place_where_nothing_can_be_written_is_known_before(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    for path in (tmp_path, tmp_path / "absent" / "out", tmp_path / "file" / "out", Path("/dev/null")):
        with pytest.raises((FileExistsError, FileNotFoundError, NotADirectoryError)):
            check_writable(path)
