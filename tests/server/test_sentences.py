import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from server.sentences import split


def pieces(text: str) -> list[str]:
    return [text[start:end] for start, end in split(text)]


def test_white_space_between_two_sentences_belongs_to_the_next() -> None:
    assert pieces("One here.  Two there!\n\nThree? Four.") == [
        "One here.",
        "  Two there!",
        "\n\nThree?",
        " Four.",
    ]


def test_white_space_at_either_end_makes_no_sentence_of_its_own() -> None:
    assert pieces(" \nOne here. Two there. \n") == [" \nOne here.", " Two there. \n"]
    assert pieces("  \n ") == ["  \n "]
    assert pieces("") == []


def test_a_stop_without_white_space_ends_nothing() -> None:
    assert pieces("Version 1.2 of a.b is out.Now go. Yes!") == ["Version 1.2 of a.b is out.Now go.", " Yes!"]


def test_a_blank_line_without_a_stop_ends_nothing() -> None:
    assert pieces("A heading\n\nThe text. More") == ["A heading\n\nThe text.", " More"]


@pytest.mark.parametrize(
    "text",
    [
        "Dr. Smith met Mr. Jones",
        "It holds, e.g. for J. K. Rowling",
        "See Fig. 3 of Prof. Lee",
        "(cf. Mr. Lee)",
    ],
)
def test_abbreviations_are_protected(text: str) -> None:
    assert pieces(f"{text}. Then they left.") == [f"{text}.", " Then they left."]


def test_sentences_inside_quotes_and_brackets_are_sentences() -> None:
    assert pieces('"It rained. It snowed. We left." Then (so. Then) on.') == [
        '"It rained.',
        " It snowed.",
        ' We left."',
        " Then (so.",
        " Then) on.",
    ]


def test_closing_quotes_and_note_marks_stay_with_their_sentence() -> None:
    assert pieces("He said “stop.” Then a note.[2] And more.") == [
        "He said “stop.”",
        " Then a note.[2]",
        " And more.",
    ]


def test_apostrophes_are_no_quotes() -> None:
    assert pieces("It's the dogs' toy. This isn't. So it's Ann's.") == [
        "It's the dogs' toy.",
        " This isn't.",
        " So it's Ann's.",
    ]


def test_full_width_stops_need_no_white_space() -> None:
    assert pieces("你好。世界！是吗？好") == ["你好。", "世界！", "是吗？", "好"]  # noqa: RUF001


@given(
    st.text(
        alphabet=st.one_of(st.sampled_from(" \n.!?\"'()。😀Mra"), st.characters(exclude_categories=["Cs"]))
    )
)
def test_sentences_tile_any_text(text: str) -> None:
    spans = split(text)
    assert "".join(text[start:end] for start, end in spans) == text
    assert all(start < end for start, end in spans)
    assert [end for _, end in spans[:-1]] == [start for start, _ in spans[1:]]


@pytest.mark.parametrize(
    ("text", "count"),
    [("abcd " * 200_000, 1), ("a! " * 100_000, 100_000), ("\n" * 1_000_000, 1), ('"(a? ' * 100_000, 100_000)],
    ids=["no stop", "one letter", "newlines", "unbalanced"],
)
def test_long_texts_take_seconds_at_most(text: str, count: int) -> None:
    begun = time.monotonic()
    assert len(split(text)) == count
    assert time.monotonic() - begun < 20  # a quadratic splitter takes minutes
