"""The table of what path integrals cost: what it measures and prints."""

from pathlib import Path

import pytest

from loadtests.cost_table import CostTable
from loadtests.path_cost import main


def test_it_prints_every_work_for_one_query_and_for_many(capsys: pytest.CaptureFixture[str]) -> None:
    main(["--lengths", "16", "64", "--queries", "1", "8", "--seconds", "0.001", "--rounds", "1"])
    printed = " ".join(capsys.readouterr().out.split())
    for words in ("attention", "kept turned", "turned anew", "16 tokens", "64 tokens"):
        assert words in printed


def test_it_keeps_its_table_where_that_is_asked_for(tmp_path: Path) -> None:
    out = tmp_path / "cost.json"
    main(["--lengths", "16", "--queries", "1", "--seconds", "0.001", "--rounds", "1", "--out", str(out)])
    kept = CostTable.read(out)
    assert kept is not None
    assert len({len(kept.head), *map(len, kept.rows)}) == 1
