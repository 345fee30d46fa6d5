import time

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from positional.qgpm import PACKAGE_DEFAULTS, QGPMConfig, build_modulation
from server.evidence import evidence_overrides, evidence_relevance
from server.locate import Located, LocateError, Source, locate
from server.offsets import TokenizedPrompt

DOCUMENT = "Anna lives in Oslo. Ben sold the boat. Carl paints. Anna lives in Rome. Dora waits."


def located_of(text: str) -> tuple[TokenizedPrompt, Located]:
    """One token a character; the context is all before the question mark's paragraph."""
    whole = f"{text}\n\nWho?"
    count = len(whole)
    prompt = TokenizedPrompt(tuple(range(count)), whole, tuple(range(count)), tuple(range(1, count + 1)))
    return prompt, locate(prompt, Source(), None, None, 1)


def ranked(text: str, *passages: tuple[str, float | None]) -> tuple[list[int], list[int]]:
    """Sentences by falling relevance: the evidence, and the others."""
    relevance = evidence_relevance(*located_of(text), passages)
    order = sorted(range(len(relevance.z)), key=lambda index: -relevance.z[index])
    return order[: relevance.count], order[relevance.count :]


def evidence(text: str, *passages: tuple[str, float | None]) -> list[int]:
    """Sentences that are evidence, by falling relevance."""
    return ranked(text, *passages)[0]


def test_evidence_ranks_before_all_others_of_which_the_last_comes_first() -> None:
    assert ranked(DOCUMENT, ("Carl paints.", None), ("sold the", None)) == ([1, 2], [4, 3, 0])


@pytest.mark.parametrize("k_sharp", [1, 2, 3])
def test_no_sentence_before_the_evidence_is_compressed_whatever_k_is(k_sharp: int) -> None:
    prompt, located = located_of(DOCUMENT)
    config = QGPMConfig(4, 0.0, k_sharp, 0.0, 0.3, 0.1, 0.1, 0.5)
    z = evidence_relevance(prompt, located, [("Carl paints.", None)]).z
    spans = [(sentence.start, sentence.end) for sentence in located.sentences]
    modulation, _ = build_modulation(z, spans, located.num_tokens, config)
    assert modulation.standard_until >= spans[2][1]


def test_evidence_is_ordered_by_score_then_by_place() -> None:
    assert evidence(DOCUMENT, ("Dora", 0.2), ("Carl", 0.9), ("Ben", 0.2)) == [2, 1, 4]


def test_a_passage_without_a_score_counts_as_one() -> None:
    assert evidence(DOCUMENT, ("Dora", None), ("Carl", 0.9), ("Ben", 1.1)) == [1, 4, 2]


def test_negative_scores_are_evidence_too() -> None:
    assert evidence(DOCUMENT, ("Dora", -3.0), ("Carl", -4.0)) == [4, 2]


def test_every_occurrence_counts() -> None:
    assert evidence(DOCUMENT, ("Anna lives", None)) == [0, 3]


def test_overlapping_occurrences_count() -> None:
    assert evidence("No. Yes! Yes! Yes! Go.", ("Yes! Yes!", None)) == [1, 2, 3]
    assert evidence("Hm! aab! aab! abb! aab! aab! Go.", ("aab! aab!", None)) == [1, 2, 4, 5]


@given(st.lists(st.sampled_from(["a! ", "aa! ", "b! ", "aba! "]), min_size=1), st.data())
def test_the_sentences_touched_are_those_of_a_plain_search(parts: list[str], data: st.DataObject) -> None:
    text = "".join(parts)
    first = data.draw(st.integers(0, len(text) - 2))
    passage = text[first : data.draw(st.integers(first + 1, len(text)))].strip()
    assume(passage)
    prompt, located = located_of(text)
    places = [at for at in range(len(text)) if text.startswith(passage, at)]
    touched = {
        index
        for index, sentence in enumerate(located.sentences)
        for at in places
        if sentence.start_char < at + len(passage) and at < sentence.end_char
    }
    relevance = evidence_relevance(prompt, located, [(passage, None)])
    best = sorted(range(len(relevance.z)), key=lambda index: -relevance.z[index])[: relevance.count]
    assert best == sorted(touched)


def test_all_sentences_touched_are_evidence() -> None:
    assert evidence(DOCUMENT, ("boat. Carl paints. Anna", None)) == [1, 2, 3]


def test_white_space_around_a_passage_touches_no_sentence() -> None:
    assert evidence(DOCUMENT, (" Carl paints. ", None)) == [2]
    assert evidence(DOCUMENT, ("\n Carl paints.\n\n", None)) == [2]


def test_a_sentence_takes_its_highest_score() -> None:
    assert evidence(DOCUMENT, ("Carl paints", 0.5), ("Ben", 0.4), ("Carl", 0.1)) == [2, 1]


def test_no_two_sentences_are_alike_even_if_all_are_evidence() -> None:
    relevance = evidence_relevance(*located_of(DOCUMENT), [(DOCUMENT, None)])
    assert relevance.count == 5
    assert list(relevance.z) == sorted(relevance.z, reverse=True)
    assert len(set(relevance.z)) == 5
    assert sum(relevance.z) == pytest.approx(0)
    assert sum(z * z for z in relevance.z) / 5 == pytest.approx(1)


@pytest.mark.parametrize("passage", ["Erik swims.", "Who?", "Dora waits.\n\nWho?"])
def test_a_passage_outside_the_context_is_named(passage: str) -> None:
    with pytest.raises(LocateError) as caught:
        ranked(DOCUMENT, ("Carl", None), (passage, 0.5))
    assert caught.value.field == "evidence[1]"
    assert caught.value.parameter == "qgpm.evidence[1]"
    assert caught.value.value == passage


def test_an_empty_context_holds_no_evidence() -> None:
    with pytest.raises(LocateError):
        ranked("", ("Carl", None))


def test_one_sentence_can_be_evidence() -> None:
    relevance = evidence_relevance(*located_of("Only this."), [("this", None)])
    assert (relevance.z, relevance.count) == ((0.0,), 1)


def test_k_grows_with_the_evidence() -> None:
    defaults = QGPMConfig(4, 2.0, 2, 0.5, 0.3, 0.1, 0.1, 0.5)

    def k(overrides: dict[str, int | float], count: int) -> tuple[int, int]:
        config = defaults.resolve(evidence_overrides(overrides, defaults, count))
        return config.k_broad, config.k_sharp

    assert k({}, 1) == (4, 2)
    assert k({}, 3) == (4, 3)
    assert k({}, 9) == (10, 9)
    assert k({"k_sharp": 1}, 9) == (4, 1)
    assert k({"k_sharp": 5}, 9) == (6, 5)
    assert k({"k_broad": 6}, 9) == (6, 5)
    assert k({"k_broad": 20}, 9) == (20, 9)
    assert k({"k_broad": 8, "k_sharp": 3}, 9) == (8, 3)


def test_other_settings_are_kept() -> None:
    assert evidence_overrides({"t_broad": 3.0}, PACKAGE_DEFAULTS, 2) == {
        "t_broad": 3.0,
        "k_sharp": PACKAGE_DEFAULTS.k_sharp,
    }


def test_repeated_passages_in_repeated_texts_take_seconds_at_most() -> None:
    prompt, located = located_of("Go! " * 50_000 + "Stop.")
    begun = time.monotonic()
    relevance = evidence_relevance(prompt, located, [("Go! " * 25_000, None), ("o", 0.5)])
    assert time.monotonic() - begun < 20  # comparing at every place takes minutes
    assert relevance.count == 50_001


def test_many_passages_of_one_text_take_seconds_at_most() -> None:
    prompt, located = located_of("Go! " * 5_000 + "Stop.")
    begun = time.monotonic()
    relevance = evidence_relevance(prompt, located, [("o", float(score)) for score in range(20_000)])
    assert time.monotonic() - begun < 20  # looking for each takes minutes
    assert relevance.count == 5_001
