"""Pages that commands write, and the check that they are up to date."""

from pathlib import Path

import pytest

from loadtests.pages import Pages

MADE = {"page.md": "text", "plots/one.svg": "<svg/>"}


@pytest.fixture
def pages(tmp_path: Path) -> Pages:
    made = Pages(tmp_path, "plots", "make page")
    made.write(MADE)
    return made


def test_what_was_written_is_up_to_date(pages: Pages, capsys: pytest.CaptureFixture[str]) -> None:
    pages.write(MADE)
    assert capsys.readouterr().out == f"{pages.docs}/page.md, and 1 plots\n"
    assert pages.check(MADE) == 0
    assert (pages.docs / "plots" / "one.svg").read_text(encoding="utf-8") == "<svg/>"


def test_what_changed_what_is_missing_and_what_is_too_much_is_named(
    pages: Pages, capsys: pytest.CaptureFixture[str]
) -> None:
    (pages.docs / "plots" / "one.svg").unlink()
    (pages.docs / "plots" / "stale.svg").touch()
    capsys.readouterr()
    assert pages.check({**MADE, "page.md": "other"}) == 1
    lines = capsys.readouterr().err.splitlines()
    names = ("page.md", "plots/one.svg", "plots/stale.svg")
    assert lines == [f"{pages.docs / name} is out of date: make page" for name in names]


def test_a_check_writes_nothing(pages: Pages) -> None:
    assert pages.check({**MADE, "page.md": "other"}) == 1
    assert (pages.docs / "page.md").read_text(encoding="utf-8") == "text"


def test_plots_that_are_shown_no_more_go_and_nothing_else(pages: Pages) -> None:
    (pages.docs / "plots" / "measured.json").touch()
    pages.write({"page.md": "text"})
    assert sorted(path.name for path in (pages.docs / "plots").iterdir()) == ["measured.json"]
