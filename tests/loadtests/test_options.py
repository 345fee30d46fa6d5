from pathlib import Path

import pytest

from loadtests.bench import QGPM_LENGTHS, Options, serve_flags
from server.compiler import can_compile


def test_a_full_run_takes_ten_pairs_and_both_lengths() -> None:
    options = Options.parse([])
    assert options.pairs == 10
    assert options.lengths == QGPM_LENGTHS == (2000, 6000)


def test_a_quick_run_takes_less_but_what_is_named_still_counts() -> None:
    full, quick = Options.parse([]), Options.parse(["--quick"])
    assert quick.pairs < full.pairs
    assert quick.tokens < full.tokens
    assert max(quick.lengths) < max(full.lengths)
    assert Options.parse(["--quick", "--pairs", "12", "--tokens", "77"]).pairs == 12
    assert Options.parse(["--quick", "--tokens", "77"]).tokens == 77


def test_the_model_is_compiled_where_the_machine_can_unless_told() -> None:
    assert Options.parse([]).eager is not can_compile()[0]
    assert Options.parse(["--eager"]).eager
    assert not Options.parse(["--compiled"]).eager
    assert "--enforce-eager" in serve_flags(Options.parse(["--eager"]))
    assert "--enforce-eager" not in serve_flags(Options.parse(["--compiled"]))


def test_more_flags_follow_the_benchmarks_own_so_that_they_win() -> None:
    options = Options.parse(["--serve-flags", "--block-size 32 --dtype float32", "--out", "o.json"])
    assert serve_flags(options)[-4:] == ["--block-size", "32", "--dtype", "float32"]
    assert options.out == Path("o.json")


@pytest.mark.parametrize("value", ["0", "-3", "many"])
def test_a_number_of_pairs_that_makes_no_sense_is_refused(
    value: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit):
        Options.parse([f"--pairs={value}"])
    assert "--pairs" in capsys.readouterr().err
