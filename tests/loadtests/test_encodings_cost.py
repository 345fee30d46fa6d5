"""The table of what a turn costs: what it measures, and the power that it says."""

from pathlib import Path

import pytest
import torch

from loadtests.cost_table import CostTable
from loadtests.encodings_cost import METHODS, growth, main


def test_the_power_is_that_of_the_two_largest_widths_that_were_measured() -> None:
    assert growth([64, 128, 256, 512], [9.0, 1.0, 4.0, None]) == pytest.approx(2)
    assert growth([64, 1024], [1.0, 16.0]) == pytest.approx(1)
    assert growth([64, 128], [1.0, None]) is None


def test_the_dense_exponential_turns_as_the_closed_form_does() -> None:
    _, closed, _, dense = METHODS
    vectors, positions = torch.randn(3, 16), torch.arange(3)
    turned = []
    for method in (closed, dense):
        torch.manual_seed(1)
        turned.append(method.made(16, positions)(vectors))
    torch.testing.assert_close(*turned, rtol=0, atol=1e-5)


def test_it_prints_every_method_and_leaves_out_what_takes_too_long(
    capsys: pytest.CaptureFixture[str],
) -> None:
    main(["--widths", "8", "4096", "--tokens", "1", "--seconds", "0.001", "--rounds", "1"])
    printed = " ".join(capsys.readouterr().out.split())
    for word in ("rank two", "RoPE", "basis", "4096", "–"):
        assert word in printed


def test_it_keeps_its_table_where_that_is_asked_for(tmp_path: Path) -> None:
    out = tmp_path / "cost.json"
    main(["--widths", "8", "--tokens", "1", "--seconds", "0.001", "--rounds", "1", "--out", str(out)])
    kept = CostTable.read(out)
    assert kept is not None
    assert len({len(kept.head), *map(len, kept.rows)}) == 1
