from pathlib import Path

import pytest
from rich.console import Console

from loadtests.quality import notation
from loadtests.quality.statistics import Interval, Mean
from loadtests.quality.table import table
from tests.loadtests.quality_runs import cells, line, setting


def test_every_cell_that_holds_something_is_a_row(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    lines = [line("plain", i, -4.0, correct=0.5) for i in range(3)]
    lines += [line("gold", i, -3.0 - i, correct=1.0) for i in range(3)]
    Console(width=160).print(table(cells(tmp_path, setting(), *lines)))
    printed = capsys.readouterr().out.splitlines()
    [plain] = [row for row in printed if "single" in row and " plain " in row]
    [gold] = [row for row in printed if "single" in row and " gold " in row]
    for shown in ("500", "3", "−4.00 ± 0.00", "0.50 ± 0.00"):
        assert shown in plain
    for shown in ("−4.00 ± 0.58", "1.00 ± 0.00", "+0.00 (", "1/1/1"):
        assert shown in gold
    assert not [row for row in printed if "single" in row and " qgpm " in row]


def test_numbers_carry_a_true_minus_and_no_negative_zero() -> None:
    assert notation.signed(-0.001) == "+0.00"
    assert notation.signed(-1.5, 1) == "−1.5"
    assert notation.mean(Mean(-0.001, None, 1)) == "0.00"


def test_an_interval_is_left_out_where_there_is_none() -> None:
    assert notation.interval(Interval(0.5, None, None)) == "+0.50"
    assert notation.interval(Interval(0.5, -0.25, 1.0)) == "+0.50 (−0.25 to +1.00)"


def test_a_small_p_value_is_bounded() -> None:
    assert [notation.p_value(p) for p in (None, 0.0004, 0.0416)] == ["–", "< 0.001", "0.042"]
