"""The command line of `ropeway plan`: its own options, and everything else for the engine."""

import pytest

from server.plan_options import WITHOUT_WEIGHTS, take


def test_what_is_not_the_plans_own_is_left_in_its_order() -> None:
    options, rest = take(["a/model", "--json", "--dtype", "float32", "--lengths=1,8000", "-O3"])
    assert (options.json, options.lengths) == (True, (1, 8000))
    assert rest == ["a/model", "--dtype", "float32", "-O3", *WITHOUT_WEIGHTS]


def test_a_model_may_stand_behind_the_plans_own_options() -> None:
    options, rest = take(["--lengths", "16", "--json", "a/model"])
    assert (options.json, options.lengths) == (True, (16,))
    assert rest == ["a/model", *WITHOUT_WEIGHTS]


def test_without_options_usual_lengths_are_told_in_a_table() -> None:
    options, rest = take([])
    assert (options.json, options.lengths) == (False, ())
    assert rest == [*WITHOUT_WEIGHTS]


def test_no_flag_of_the_engine_is_taken_for_a_short_form() -> None:
    assert take(["--js", "--len", "4"])[1] == ["--js", "--len", "4", *WITHOUT_WEIGHTS]


@pytest.mark.parametrize("lengths", ["", "0", "8,", "-1", "1e3", "8,0", "many"])
def test_lengths_are_numbers_of_tokens(lengths: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        take([f"--lengths={lengths}"])
    assert ended.value.code == 2
    assert "is not numbers of tokens, joined by commas" in capsys.readouterr().err
