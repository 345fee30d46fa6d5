"""What the report says of the guard's dial."""

from pathlib import Path

import pytest

from loadtests.quality.cells import Cells
from loadtests.results.quality.dial import SHARES, dial, dial_plot, settings
from tests.loadtests.quality_runs import cells, line, setting


def _cells(folder: Path) -> Cells:
    """Ten samples: the surer the relevance, the more it gains; the least sure lose."""
    lines = [line("plain", number, -5.0, correct=0.0) for number in range(10)]
    lines += [
        line("qgpm", number, -5.0 + 0.1 * (number - 4), correct=float(number > 4), confidence=number / 10)
        for number in range(10)
    ]
    return cells(folder, setting(), *lines)


def test_the_surest_are_modulated_first_and_the_others_count_as_plain(tmp_path: Path) -> None:
    found = settings(_cells(tmp_path), "qgpm")
    assert [setting.share for setting in found] == list(SHARES)
    surest, *_, all_of_them = found
    assert (surest.asked, all_of_them.asked) == (0.9, 0.0)
    assert surest.logprob.mean == pytest.approx(0.5 / 10)
    assert all_of_them.logprob.mean == pytest.approx(0.05)
    half = found[2]
    assert half.logprob.mean == pytest.approx(0.1 * (1 + 2 + 3 + 4 + 5) / 10)
    assert half.accuracy.mean == pytest.approx(0.5)


def test_what_the_guard_had_nothing_to_judge_comes_last_and_in_no_order(tmp_path: Path) -> None:
    lines = [line("plain", number, -5.0) for number in range(8)]
    judged = [line("lexical", number, -4.0, confidence=0.9) for number in range(2)]
    plainly = [line("lexical", number, -5.0 + 0.01 * number, mode="plain") for number in range(2, 8)]
    found = settings(cells(tmp_path, setting(), *lines, *judged, *plainly), "lexical")
    assert [one.logprob.mean for one in found[:2]] == pytest.approx([1 / 8, 2 / 8])
    # Of four, the two that were judged and the next two as they come, not the best.
    assert found[2].logprob.mean == pytest.approx((2 + 0.02 + 0.03) / 8)


def test_the_dial_is_told_in_a_table_and_drawn(tmp_path: Path) -> None:
    told = dial(_cells(tmp_path))
    assert "| QGPM | 50 % | 0.50 |" in told
    drawn = dial_plot(_cells(tmp_path))
    assert drawn is not None
    assert "where all are modulated" in drawn.alt


def test_nothing_is_told_where_no_confidence_was_observed(tmp_path: Path) -> None:
    seen = cells(tmp_path, setting(), line("plain", 0, -5.0), line("qgpm", 0, -4.0))
    assert (dial(seen), dial_plot(seen)) == ("", None)
