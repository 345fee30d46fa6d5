"""An answer is right as far as the gold answers occur in it as whole words."""

import pytest

from loadtests.quality.grading import share_found


@pytest.mark.parametrize(
    ("output", "answers", "share"),
    [
        ("4711", ("4711",), 1.0),
        ("The locker opens with the number 4711.", ("4711",), 1.0),
        ("It is 47110.", ("4711",), 0.0),
        ("It is 14711.", ("4711",), 0.0),
        ("elke", ("Elke",), 1.0),
        ("Elkes Bruder", ("Elke",), 0.0),
        ("4711, 1234 and 99", ("4711", "1234", "5555", "99"), 0.75),
        ("(4711)", ("4711",), 1.0),
        ("a red kite", ("red kite",), 1.0),
        ("St. Ives", ("st. ives",), 1.0),
        ("", ("4711",), 0.0),
        ("1.5 km", ("1.5",), 1.0),
        ("115 km", ("1.5",), 0.0),
    ],
)
def test_the_share_of_gold_answers_that_occur(output: str, answers: tuple[str, ...], share: float) -> None:
    assert share_found(output, answers) == share
