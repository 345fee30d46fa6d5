from pathlib import Path

import pytest

from loadtests.options import QGPM_LENGTHS, Options
from server.compiler import can_compile


def test_a_full_run_takes_several_rounds_and_all_lengths() -> None:
    options = Options.parse([])
    assert (options.rounds, options.sizes.pairs) == (4, 3)
    assert options.sizes.qgpm == QGPM_LENGTHS == (1000, 2000, 4000, 8000)


def test_a_quick_run_takes_less_but_what_is_named_still_counts() -> None:
    full, quick = Options.parse([]), Options.parse(["--quick"])
    assert quick.rounds == 1
    assert quick.sizes.pairs < full.sizes.pairs
    assert quick.sizes.plain < full.sizes.plain
    assert max(quick.sizes.qgpm) < max(full.sizes.qgpm)
    named = Options.parse(
        ["--quick", "--rounds", "2", "--pairs", "12", "--tokens", "77", "--lengths", "900,300"]
    )
    assert (named.rounds, named.sizes.pairs, named.sizes.plain, named.sizes.qgpm) == (2, 12, 77, (300, 900))


def test_the_model_is_compiled_where_the_machine_can_unless_told() -> None:
    assert Options.parse([]).eager is not can_compile()[0]
    assert Options.parse(["--eager"]).eager
    assert not Options.parse(["--compiled"]).eager
    assert "--enforce-eager" in Options.parse(["--eager"]).serve_flags()
    assert "--enforce-eager" not in Options.parse(["--compiled"]).serve_flags()


def test_more_flags_follow_the_benchmarks_own_so_that_they_win() -> None:
    options = Options.parse(["--serve-flags", "--block-size 32 --dtype float32", "--out", "o.json"])
    assert options.serve_flags()[-4:] == ["--block-size", "32", "--dtype", "float32"]
    assert options.out == Path("o.json")


@pytest.mark.parametrize(
    "argument",
    ["--pairs=0", "--rounds=many", "--lengths=", "--lengths=1000,0", "--only=quality", "--serve-flags='"],
)
def test_a_number_that_makes_no_sense_is_refused(argument: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        Options.parse([argument])
    assert argument.partition("=")[0] in capsys.readouterr().err


@pytest.mark.parametrize("text", ["qgpm", "qgpm 2000", "reuse", "plain", "e"])
def test_measurements_are_chosen_by_a_part_of_their_name(text: str) -> None:
    assert Options.parse(["--only", text]).only == text
