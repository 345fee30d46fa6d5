"""The page on encodings, and that the committed one is what they say today."""

from pathlib import Path

import pytest

from loadtests.cost_table import CostTable
from loadtests.encodings.__main__ import main
from loadtests.encodings.costs import COSTS
from loadtests.encodings.curves import FAR, NEAR, Curve
from loadtests.encodings.figures import figure
from loadtests.encodings.page import NAME, text
from loadtests.encodings.served import ELSEWHERE, FIELDS
from positional.encodings.registry import Entry, encodings

DOCS = Path(__file__).parents[3] / "docs"
PAGE = text(DOCS)
EVERY = pytest.mark.parametrize("entry", encodings(), ids=lambda entry: entry.name)


def test_the_committed_page_is_what_the_encodings_say() -> None:
    """The text alone: another version of the plotting library draws the same numbers a little otherwise."""
    assert (DOCS / NAME).read_text(encoding="utf-8") == PAGE


def test_every_plot_that_the_committed_page_shows_is_committed() -> None:
    page = (DOCS / NAME).read_text(encoding="utf-8")
    shown = {part.partition(")")[0] for part in page.split("](")[1:]}
    assert shown == {f"encodings/{path.name}" for path in (DOCS / "encodings").glob("*.svg")}


@EVERY
def test_every_encoding_has_its_row_its_words_and_its_numbers(entry: Entry) -> None:
    rows = [line for line in PAGE.splitlines() if line.startswith(f"| {entry.title} |")]
    listed = entry.name in FIELDS or entry.name in ELSEWHERE
    assert len(rows) == 3 + listed
    summary, *_, words, numbers = rows
    assert summary.endswith(f"| {entry.bytes_per_token} |")
    assert entry.example.contract.why in words
    assert numbers.count("|") == 10


@EVERY
def test_what_a_cache_can_hold_is_served_or_said_not_to_be(entry: Entry) -> None:
    assert entry.example.contract.servable == ((entry.name in FIELDS) != (entry.name in ELSEWHERE))


def test_what_was_not_measured_is_said_with_the_command(tmp_path: Path) -> None:
    told = text(tmp_path)
    for cost in COSTS:
        assert f"-m {cost.command} --out docs/encodings/{cost.file}`" in told


def test_what_was_measured_is_shown(tmp_path: Path) -> None:
    (tmp_path / "encodings").mkdir()
    table = CostTable("Seconds of a machine", ("width", "64"), (("a turn", "1.5"),))
    table.save(tmp_path / "encodings" / COSTS[0].file)
    assert "Seconds of a machine:\n\n| width | 64 |\n| --- | --: |\n| a turn | 1.5 |" in text(tmp_path)


@EVERY
def test_two_queries_of_an_exactly_relative_encoding_have_one_curve(entry: Entry) -> None:
    curve = Curve.of(entry)
    assert (len(curve.far), len(curve.near)) == (FAR + 1, NEAR + 1)
    if entry.example.contract.relative == "exact":
        assert curve.departure < 1e-5


def test_a_figure_shows_every_encoding_of_its_family_and_says_so_in_words() -> None:
    curves = [Curve.of(entry) for entry in encodings() if entry.family == "multiplicative"]
    made = figure("multiplicative", "Turns", curves)
    assert made.name == "multiplicative.svg"
    for curve in curves:
        assert f">{curve.entry.title}</text>" in made.svg
        assert curve.entry.title in made.alt


@pytest.mark.long
def test_the_command_writes_what_its_check_accepts(tmp_path: Path) -> None:
    assert main(["--docs", str(tmp_path)]) == 0
    assert main(["--docs", str(tmp_path), "--check"]) == 0
