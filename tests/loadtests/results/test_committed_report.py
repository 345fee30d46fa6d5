from pathlib import Path

import pytest

from loadtests.results.files import read
from loadtests.results.report import NAME, report
from loadtests.results.section import FOLDER

DOCS = Path(__file__).parents[3] / "docs"


@pytest.mark.long
def test_the_committed_report_is_what_the_committed_results_say() -> None:
    """The text alone: another version of the plotting library draws the same data a little otherwise."""
    assert (DOCS / NAME).read_text(encoding="utf-8") == report(read(DOCS / FOLDER))[NAME]
