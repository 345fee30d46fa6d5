from loadtests.results import markdown
from loadtests.results.drawing import Plot


def test_a_table_has_a_row_a_line() -> None:
    assert markdown.table(("name", "n"), [("a|b", "1")]) == "| name | n |\n| --- | --: |\n| a\\|b | 1 |"


def test_settings_are_a_line_each_whatever_they_are() -> None:
    values = {"seed": 0, "eager": True, "rate": 0.5, "none": None, "v": {"a": "1", "b": [1, 2]}, "grid": {}}
    assert markdown.setting(values, without=("grid",)).splitlines() == [
        "- seed: 0",
        "- eager: yes",
        "- rate: 0.5",
        "- none: none",
        "- v: a 1; b 1, 2",
    ]


def test_a_picture_says_what_it_shows() -> None:
    assert markdown.picture(Plot("a.svg", "", "x [y]"), "results") == "![x (y)](results/a.svg)"
