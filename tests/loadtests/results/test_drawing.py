import re

import pytest

from loadtests.results.drawing import DARK, INK, LOOKS, PAPER, Plot, drawn, look, plot


def _luminance(colour: str) -> float:
    """Relative luminance, as the Web Content Accessibility Guidelines define it."""
    channels = [int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)]
    linear = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in channels]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def _contrast(one: str, other: str) -> float:
    dark, light = sorted((_luminance(one), _luminance(other)))
    return (light + 0.05) / (dark + 0.05)


def _plot() -> Plot:
    with drawn(3, 2) as (figure, axes):
        axes[0].plot([1, 2, 3], [2.0, 1.0, 4.0], marker="o", color=LOOKS["qgpm"].colour, label="a & b")
        axes[0].legend()
        return plot(figure, "name", "A title", "What <it> shows")


def test_the_same_data_make_the_same_bytes() -> None:
    assert _plot() == _plot()


def test_a_plot_carries_its_title_and_description_and_no_date() -> None:
    made = _plot()
    assert made.name == "name.svg"
    assert "<title>A title</title>" in made.svg
    assert "What &lt;it&gt; shows" in made.svg
    assert "dc:date" not in made.svg


def test_text_stays_text() -> None:
    assert re.search(r"<text[^>]*>a &amp; b</text>", _plot().svg)


def test_a_plot_turns_dark_where_the_page_is() -> None:
    svg = _plot().svg
    assert svg.count("prefers-color-scheme: dark") == 1
    for light, dark in DARK.items():
        assert f'[style*="fill: {light}"]{{fill:{dark} !important}}' in svg
    assert f"fill: {PAPER}" in svg
    assert f"fill: {INK}" in svg


@pytest.mark.parametrize("paper", [PAPER, DARK[PAPER]])
def test_every_series_stands_out_from_light_and_dark_paper(paper: str) -> None:
    for shown in LOOKS.values():
        assert _contrast(shown.colour, paper) >= 3, shown


def test_text_is_readable_on_light_and_dark_paper() -> None:
    assert _contrast(INK, PAPER) >= 7
    assert _contrast(DARK[INK], DARK[PAPER]) >= 7


def test_no_series_is_told_by_its_colour_alone() -> None:
    markers = [shown.marker for shown in LOOKS.values()]
    assert len(set(markers)) == len(markers)


def test_an_unknown_method_is_drawn_under_its_name() -> None:
    assert look("something").label == "something"
