"""What a hostile text costs: four times the text, about four times the work.

Work of our own is counted. The sentence splitter is a compiled library, whose seconds are all that shows.
"""

import random
import time
from collections.abc import Callable

import pytest
from sentencex import get_sentence_boundaries

from server.evidence import evidence_relevance
from server.locate import Backwards, LocateError, Source, locate
from server.offsets import TokenizedPrompt
from server.sentences import LANGUAGE, split
from tests.support.work import Counted, work

Text = Callable[[int], str]


def _random_unicode(length: int) -> str:
    """Any characters but lone surrogates."""
    dice = random.Random(7)
    codes = (dice.randrange(0x110000 - 0x800) for _ in range(length))
    return "".join(chr(code if code < 0xD800 else code + 0x800) for code in codes)


def _repeated(piece: str) -> Text:
    return lambda length: piece * (length // len(piece))


TEXTS: dict[str, Text] = {
    "no stop": _repeated("a"),
    "words without a stop": _repeated("word "),
    "one-letter sentences": _repeated("a! "),
    "one-letter words with a stop": _repeated("a. "),
    "abbreviations": _repeated("Mr. Dr. e.g. Prof. "),
    "initials": _repeated("A. "),
    "nothing but stops": _repeated("."),
    "nothing but quotes": _repeated("\""),
    "brackets that open": _repeated("("),
    "sentences that open quotes and brackets": _repeated("\"(a? "),
    "note marks": _repeated("a.[1][2][3] "),
    "half of a note mark": _repeated(".[1"),
    "numbers": _repeated("1. "),
    "newlines": _repeated("\n"),
    "newlines and spaces": _repeated("\n \t"),
    "spaces": _repeated(" "),
    "full-width stops": _repeated("。"),
    "NUL": _repeated("\0. "),
    "random Unicode": _random_unicode,
    "lone surrogates": _repeated("\ud800. \udfff"),
}  # fmt: skip
LENGTH = 6_000


def _letters(text: str) -> TokenizedPrompt:
    """One token a character, over a text that counts."""
    places = range(len(text))
    return TokenizedPrompt(tuple(places), Counted(text), tuple(places), tuple(place + 1 for place in places))


def _grows_as_the_text(once: int, four_times: int) -> bool:
    return four_times <= 5 * once + 1000  # the square would be sixteen times as much


@pytest.mark.parametrize("text", TEXTS.values(), ids=TEXTS)
def test_splitting_works_as_much_as_the_text_is_long(text: Text) -> None:
    texts = [Counted(text(length)) for length in (LENGTH, 4 * LENGTH)]
    assert _grows_as_the_text(*(work(lambda one=one: split(one)) for one in texts))


@pytest.mark.parametrize("text", TEXTS.values(), ids=TEXTS)
def test_locating_works_as_much_as_the_prompt_is_long(text: Text) -> None:
    prompts = [_letters(f"{text(length)}\n\nQuestion: Why?") for length in (LENGTH, 4 * LENGTH)]
    assert _grows_as_the_text(
        *(work(lambda prompt=prompt: locate(prompt, Source(), None, None, 4)) for prompt in prompts)
    )


@pytest.mark.parametrize("text", TEXTS.values(), ids=TEXTS)
def test_a_last_paragraph_is_found_in_as_much_work_as_the_prompt_is_long(text: Text) -> None:
    prompts = [_letters(text(length)) for length in (LENGTH, 4 * LENGTH)]
    assert _grows_as_the_text(
        *(work(lambda prompt=prompt: locate(prompt, Source(), None, None, 4)) for prompt in prompts)
    )


# What a template makes of a message's text, and the text.
TEMPLATES: dict[str, tuple[Callable[[str], str], str]] = {
    "kept": (lambda text: text, "Yes. No. {}"),
    "stripped": (lambda text: text.strip(), " Yes. No. {} \n"),
    "empty": (lambda text: text, ""),
    "a text that the template itself holds": (lambda text: text, "user"),
}


@pytest.mark.parametrize(("written", "text"), TEMPLATES.values(), ids=TEMPLATES)
def test_many_messages_work_as_much_as_the_prompt_is_long(written: Callable[[str], str], text: str) -> None:
    def chat(count: int) -> tuple[TokenizedPrompt, Source]:
        messages = [("user", text.format(number)) for number in range(count)]
        prompt = "".join(f"<user>\n{written(content)}</user>\n" for _, content in messages)
        return _letters(prompt + "Question: Why?"), Source((*messages, ("user", "Question: Why?")))

    def once(count: int) -> int:
        prompt, source = chat(count)
        return work(lambda: locate(prompt, source, None, None, 4))

    assert _grows_as_the_text(once(500), once(2000))


def test_messages_that_the_prompt_does_not_hold_are_looked_for_so_long_and_no_longer(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("server.locate._MOST_IN_VAIN", 1_000_000)
    text = "word " * 10_000
    backwards = Backwards(text)
    with pytest.raises(LocateError, match="too many") as refused:
        backwards.all([f"dropped {number}" for number in range(10_000)], len(text))
    assert refused.value.parameter == "messages"
    assert backwards.in_vain < 1_200_000
    assert Backwards(text).all(["dropped"] * 10, len(text)) == [None] * 10


PASSAGES: dict[str, tuple[Text, list[str]]] = {
    "in every sentence": (_repeated("Go on. "), ["o", "on", "Go", "Go on."]),
    "of one letter": (_repeated("a"), ["a", "aa", "aaa"]),
    "a long repetition": (_repeated("Go! "), ["Go! " * 1000, "o! G" * 1000]),
    "once": (lambda length: "word " * (length // 5) + "Last one.", ["Last one."]),
    "white space": (_repeated("a. \n "), [" \n a", "a. \n "]),
}


@pytest.mark.parametrize(("text", "passages"), PASSAGES.values(), ids=PASSAGES)
def test_a_passage_is_looked_for_in_as_much_work_as_the_prompt_is_long(
    text: Text, passages: list[str]
) -> None:
    def once(length: int) -> int:
        prompt = _letters(f"{text(length)}\n\nQuestion: Why?")
        located = locate(prompt, Source(), None, None, 4)
        return work(lambda: evidence_relevance(prompt, located, [(passage, None) for passage in passages]))

    assert _grows_as_the_text(once(LENGTH), once(4 * LENGTH))


def test_passages_that_occur_everywhere_are_counted_and_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("server.evidence._MOST_OCCURRENCES", 5_000)
    prompt = _letters("aaa. " * 1000 + "\n\nQuestion: Why?")
    located = locate(prompt, Source(), None, None, 4)
    passages = [("a" * (1 + number % 3) + "." * (number % 2), float(number)) for number in range(6)]
    with pytest.raises(LocateError, match="5000 occurrences") as refused:
        evidence_relevance(prompt, located, passages)
    assert refused.value.parameter.startswith("qgpm.evidence[")
    assert evidence_relevance(prompt, located, [("aaa.", None)]).count > 0


@pytest.mark.parametrize("text", TEXTS.values(), ids=TEXTS)
def test_the_library_takes_as_long_as_the_text_is_long(text: Text) -> None:
    def seconds(length: int) -> float:
        one = text(length).encode(errors="replace").decode()
        taken = []
        for _ in range(3):
            begun = time.process_time()
            get_sentence_boundaries(LANGUAGE, one)
            taken.append(time.process_time() - begun)
        return min(taken)

    assert seconds(400_000) < 9 * seconds(100_000) + 0.05


def test_one_megabyte_without_a_stop_is_one_sentence() -> None:
    assert split("a" * 1_000_000) == [(0, 1_000_000)]


def test_lone_surrogates_count_as_characters() -> None:
    assert split("\ud800. B\udfff. C") == [(0, 2), (2, 6), (6, 8)]
