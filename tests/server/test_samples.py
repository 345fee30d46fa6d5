import hashlib
import re
from importlib.metadata import PackageNotFoundError

import pytest

from server import haystack, samples
from server.haystack import SamplesError
from server.needles import MULTI_KEYS
from server.samples import SPLITS, Sample, Split

# Of the samples that the shipped head profile was made from.
CALIBRATION_DIGEST = "968c07238264dde883cc59ccbbf873fb81723bc8a64cba8946ebf7c84f684733"


def words(text: str) -> int:
    return len(text.split())


def drawn(split: Split = "calibration", count: int = 16, seed: int = 0) -> list[Sample]:
    return list(samples.generate(split, count, seed, words, lengths=(200, 600)))


def test_the_calibration_samples_never_change() -> None:
    digest = hashlib.sha256()
    for sample in samples.generate("calibration", 128, 0, words):
        known = (sample.question, sample.context, sample.evidence, sample.answer)
        digest.update(repr((sample.kind, sample.length, sample.messages, *known)).encode())
    assert digest.hexdigest() == CALIBRATION_DIGEST


def test_the_same_seed_gives_the_same_samples() -> None:
    assert drawn() == drawn()
    assert drawn(count=4) == drawn()[:4]


def test_another_seed_or_split_gives_others() -> None:
    contexts = [sample.context for sample in [*drawn(), *drawn(seed=1), *drawn("tuning")]]
    assert len(set(contexts)) == len(contexts)


@pytest.mark.parametrize("split", SPLITS)
def test_what_is_known_occurs_in_the_prompt_word_for_word(split: Split) -> None:
    for sample in drawn(split):
        prompt = sample.messages[-1][1]
        assert prompt.endswith(f"{sample.context}\n\n{sample.question}")
        assert all(sample.context.count(evidence) == 1 for evidence in sample.evidence)
        assert sample.answer in sample.evidence[0]
        assert sample.answer not in sample.question


@pytest.mark.parametrize("split", SPLITS)
def test_kinds_and_lengths_are_even(split: Split) -> None:
    cells = [(sample.kind, sample.length) for sample in drawn(split)]
    assert {cell: cells.count(cell) for cell in cells} == {
        (kind, length): 4 for kind in samples.CALIBRATION_KINDS for length in (200, 600)
    }


def test_a_context_has_the_length_that_was_asked_for() -> None:
    for sample in drawn():
        assert sample.length <= words(sample.context) < sample.length + 120


def test_a_length_too_short_for_the_needles_still_hides_them_in_the_text() -> None:
    for sample in samples.generate("calibration", 8, 0, words, lengths=(1,)):
        assert sample.evidence[0] in sample.context
        assert not sample.context.endswith(sample.evidence[0])


def test_evidence_stands_at_every_depth() -> None:
    found = [sample.context.index(sample.evidence[0]) / len(sample.context) for sample in drawn(count=64)]
    quarters = [sum(quarter <= 4 * depth < quarter + 1 for depth in found) for quarter in range(4)]
    assert min(quarters) >= 8


def test_a_line_break_never_marks_a_needle() -> None:
    for sample in drawn(count=64):
        for evidence in sample.evidence:
            assert f"\n{evidence}" not in sample.context
            assert f"{evidence}\n" not in sample.context


def test_an_indirect_question_shares_no_content_word_with_its_evidence() -> None:
    grammar = {"question", "who", "works", "likes", "as", "a", "the", "playing", "of"}
    for sample in drawn(count=64) + drawn("tuning", count=64):
        if sample.kind == "indirect":
            asked, told = (
                set(re.findall(r"[a-z]+", text.lower())) for text in (sample.question, sample.evidence[0])
            )
            assert not (asked - grammar) & told


def test_a_multi_key_question_is_answered_by_one_of_several_like_sentences() -> None:
    for sample in drawn(count=32):
        if sample.kind == "multi_key":
            start = " ".join(sample.evidence[0].split()[:2])
            assert sample.context.count(start) >= MULTI_KEYS[0]


def test_without_the_text_the_extra_to_install_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    def absent(name: str) -> None:
        raise PackageNotFoundError(name)

    haystack._books.cache_clear()
    haystack.sentences.cache_clear()
    monkeypatch.setattr(haystack, "distribution", absent)

    with pytest.raises(SamplesError, match=r"ropeway\[calibrate\]"):
        drawn(count=1)
