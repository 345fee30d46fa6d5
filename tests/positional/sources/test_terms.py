"""Terms of texts in any script."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from positional.sources.terms import terms


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("The ferry's captain sings", ["ferri", "captain", "sing"]),
        ("CAFÉ café cafe", ["cafe", "cafe", "cafe"]),
        ("straße STRASSE", ["strass", "strass"]),
        ("Who is it?", []),
        ("1,234 v2", ["1", "234", "v2", "v", "2"]),
        ("Ключи ключ", ["ключ", "ключ"]),
    ],
)
def test_words_are_folded_and_stemmed(text: str, expected: list[str]) -> None:
    assert terms([text]) == [expected]


@pytest.mark.parametrize("spelling", ["maxTokens", "max_tokens", "MaxTokens", "MAX_TOKENS"])
def test_an_identifier_gives_itself_and_its_parts(spelling: str) -> None:
    whole, *parts = terms([f"x = {spelling}(2)"])[0][1:-1]
    assert whole in ("maxtoken", "max_tokens")
    assert parts == ["max", "token"]


def test_abbreviations_within_an_identifier_are_parts_of_their_own() -> None:
    assert terms(["getHTTPName2"]) == [["gethttpname2", "get", "http", "name", "2"]]


def test_scripts_without_spaces_give_pairs_of_neighbours() -> None:
    assert terms(["灯台の鍵"]) == [["灯台", "台の", "の鍵"]]
    assert terms(["鍵"]) == [["鍵"]]
    assert terms(["한국어 책"]) == [["한국", "국어", "책"]]
    assert terms(["สวัสดี"])[0][0] == "สว"


def test_halves_and_fulls_of_a_width_are_the_same() -> None:
    assert terms(["ﾊﾞｲｵﾘﾝ ＡＢＣ"]) == terms(["バイオリン ABC"])  # noqa: RUF001


def test_scripts_may_change_within_a_run() -> None:
    assert terms(["PythonとGPU鍵"]) == [["python", "と", "gpu", "鍵"]]


@pytest.mark.parametrize(
    "spelling",
    ["مفتاح", "مِفْتاح", "المفتاح", "مفتـاح", "بالمفتاح"],  # plain, vowelled, definite, stretched, "by the"
)
def test_arabic_spellings_are_one_term(spelling: str) -> None:
    assert terms([spelling]) == terms(["مفتاح"])


def test_the_spellings_of_an_arabic_letter_are_one() -> None:
    assert terms(["أحمد"]) == terms(["احمد"])
    assert terms(["آمن"]) == terms(["امن"])
    assert terms(["کتاب"]) == terms(["كتاب"])  # the Persian letter


def test_vowel_signs_of_indic_scripts_stay() -> None:
    assert terms(["पुस्तक"]) == [["पुस्तक"]]


@settings(max_examples=200)
@given(st.lists(st.text(), max_size=5))
def test_any_texts_have_terms_each_for_itself(texts: list[str]) -> None:
    together = terms(texts)
    assert together == [terms([text])[0] for text in texts]
    assert all(term and not term.isspace() for found in together for term in found)
