import argparse

import pytest

from loadtests import arguments


def test_numbers_and_flags_are_read() -> None:
    assert arguments.count("12") == 12
    assert arguments.amount("0.5") == 0.5
    assert arguments.flags("--dtype float32 --rope '{\"a\": 1}'") == (
        "--dtype",
        "float32",
        "--rope",
        '{"a": 1}',
    )
    assert arguments.flags("") == ()


@pytest.mark.parametrize("text", ["0", "-1"])
def test_a_count_is_above_0(text: str) -> None:
    with pytest.raises(argparse.ArgumentTypeError, match="not positive"):
        arguments.count(text)


@pytest.mark.parametrize("text", ["0", "-1", "nan", "inf"])
def test_an_amount_is_above_0_and_finite(text: str) -> None:
    with pytest.raises(argparse.ArgumentTypeError, match="not above 0"):
        arguments.amount(text)


def test_flags_with_an_open_quotation_are_refused() -> None:
    with pytest.raises(argparse.ArgumentTypeError, match="No closing quotation"):
        arguments.flags("--rope '{")
