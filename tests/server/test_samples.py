import hashlib
import re
import statistics
from importlib.metadata import PackageNotFoundError
from itertools import pairwise, product

import pytest

from server import haystack, samples, sentences
from server.haystack import SamplesError
from server.needles import INDIRECT_THINGS, MULTI_KEYS, MULTI_VALUES
from server.samples import KINDS, POOLS, SPLITS, Kind, Sample, Split

# Of the samples that the shipped head profile was made from.
CALIBRATION_DIGEST = "4793ce60b45d255fbbef816e24d36499070a073c1b054156076c76e139fd0dad"
# Words that carry grammar and no content: questions and needles may share them.
GRAMMAR = frozenset("a an and as at by for from in is it of on the to was".split())  # noqa: SIM905

every_cell = pytest.mark.parametrize(("split", "kind"), list(product(SPLITS, KINDS)))


def words(text: str) -> int:
    return len(text.split())


def generated(split: Split = "calibration", count: int = 16, seed: int = 0) -> list[Sample]:
    return list(samples.generate(split, count, seed, words, lengths=(200, 600)))


def drawn(split: Split, kind: Kind, count: int = 22, seed: int = 0, length: int = 400) -> list[Sample]:
    return [samples.sample(split, kind, length, number, seed, words) for number in range(count)]


def occurrences(word: str, text: str) -> int:
    return len(re.findall(rf"\b{re.escape(word)}\b", text, re.IGNORECASE))


def content_words(text: str) -> set[str]:
    return set(re.findall(r"[a-z]+", text.lower())) - GRAMMAR


def word_values(split: Split) -> list[str]:
    pool = POOLS[split]
    values = [
        value for subject in pool.subjects for relation in subject.relations for value in relation.values
    ]
    return values + [value for f in pool.families if isinstance(f.values, tuple) for value in f.values]


@every_cell
def test_a_lead_in_goes_on_with_the_answer_and_tells_nothing(split: Split, kind: Kind) -> None:
    for sample in drawn(split, kind):
        assert sample.told == tuple(f"{sample.lead_in} {answer}" for answer in sample.answers)
        assert not any(occurrences(answer, sample.lead_in) for answer in sample.answers)
        if kind == "indirect":
            assert content_words(sample.lead_in) <= content_words(sample.question)
        else:
            assert sample.evidence[0].startswith(sample.lead_in)


def test_the_calibration_samples_never_change() -> None:
    digest = hashlib.sha256()
    for sample in samples.generate("calibration", 128, 0, words):
        known = (sample.question, sample.context, sample.evidence, ", ".join(sample.answers))
        digest.update(repr((sample.kind, sample.length, sample.messages, *known)).encode())
    assert digest.hexdigest() == CALIBRATION_DIGEST


def test_generated_samples_are_the_same_for_the_same_seed() -> None:
    assert generated() == generated()
    assert generated(count=4) == generated()[:4]


@pytest.mark.parametrize("split", SPLITS)
def test_generated_kinds_and_lengths_are_even(split: Split) -> None:
    cells = [(sample.kind, sample.length) for sample in generated(split)]
    assert {cell: cells.count(cell) for cell in cells} == {
        (kind, length): 4 for kind in samples.CALIBRATION_KINDS for length in (200, 600)
    }


def test_generated_evidence_stands_at_every_depth() -> None:
    found = [sample.depth for sample in generated(count=64)]
    quarters = [sum(quarter <= 4 * depth < quarter + 1 for depth in found) for quarter in range(4)]
    assert min(quarters) >= 8


@every_cell
def test_a_sample_is_the_same_whenever_it_is_made(split: Split, kind: Kind) -> None:
    assert samples.sample(split, kind, 400, 5, 1, words) == drawn(split, kind, count=6, seed=1)[5]


def test_whatever_names_a_sample_makes_it_another() -> None:
    contexts = [
        samples.sample(split, kind, length, number, seed, words).context
        for split, kind, length, number, seed in product(SPLITS, KINDS, (200, 400), (0, 1), (0, 1))
    ]
    assert len(set(contexts)) == len(contexts)


@every_cell
def test_what_is_known_occurs_in_the_prompt_word_for_word(split: Split, kind: Kind) -> None:
    for sample in drawn(split, kind):
        assert sample.kind == kind
        assert sample.messages[-1][1].endswith(f"{sample.context}\n\n{sample.question}")
        assert sample.question.startswith("Question: ")
        assert all(sample.context.count(evidence) == 1 for evidence in sample.evidence)


@every_cell
def test_an_answer_is_told_by_the_evidence_alone(split: Split, kind: Kind) -> None:
    for sample in drawn(split, kind):
        for answer in sample.answers:
            assert occurrences(answer, sample.context) == 1
            assert occurrences(answer, sample.question) == 0
            assert sum(occurrences(answer, evidence) for evidence in sample.evidence) == 1


@every_cell
def test_evidence_ends_a_sentence_of_its_own(split: Split, kind: Kind) -> None:
    # A verse that ends in what may be an abbreviation, such as "me.", runs on into the needle behind it.
    for sample in drawn(split, kind):
        ends = {end for _, end in sentences.split(sample.context)}
        for evidence in sample.evidence:
            start = sample.context.index(evidence)
            assert start + len(evidence) in ends


@every_cell
def test_a_line_break_never_marks_evidence(split: Split, kind: Kind) -> None:
    for sample in drawn(split, kind):
        for evidence in sample.evidence:
            assert f"\n{evidence}" not in sample.context
            assert f"{evidence}\n" not in sample.context


@every_cell
def test_depths_run_evenly_from_start_to_end(split: Split, kind: Kind) -> None:
    found = drawn(split, kind, count=samples.DEPTHS, length=2000)
    depths = [sample.depth for sample in found]

    # Half a sentence of the text; a paragraph begins before its evidence.
    near = 0.12 if kind == "qa" else 0.05
    assert sorted(depths) == pytest.approx([tenth / 10 for tenth in range(11)], abs=near)
    for sample in found:
        place = sample.context.index(sample.evidence[0])
        assert sample.depth == place / (len(sample.context) - len(sample.evidence[0]))
    # So that few samples already cover it.
    assert min(abs(one - other) for one, other in pairwise(depths)) > 0.2


@every_cell
def test_a_context_has_the_length_that_was_asked_for(split: Split, kind: Kind) -> None:
    longest = max(words(sentence) for sentence in haystack.sentences(POOLS[split].books))
    found = [words(sample.context) for sample in drawn(split, kind)]
    assert all(400 <= length < 400 + longest for length in found)
    assert statistics.median(found) < 440


@every_cell
def test_a_length_too_short_for_the_needles_still_hides_them_in_the_text(split: Split, kind: Kind) -> None:
    for sample in drawn(split, kind, count=4, length=1):
        assert all(evidence in sample.context for evidence in sample.evidence)
        assert any(verse in sample.context for verse in haystack.sentences(POOLS[split].books))


@pytest.mark.parametrize("split", SPLITS)
def test_a_single_needle_has_no_rival(split: Split) -> None:
    for sample in drawn(split, "single"):
        (needle,) = sample.evidence
        plain = sample.context.replace(needle, "")
        assert not any(occurrences(name, plain) for name in POOLS[split].names)


@pytest.mark.parametrize("split", SPLITS)
def test_a_multi_key_question_is_answered_by_one_of_several_like_sentences(split: Split) -> None:
    for sample in drawn(split, "multi_key"):
        assert len(sample.evidence) == len(sample.answers) == 1
        named = [name for name in POOLS[split].names if occurrences(name, sample.context)]
        assert MULTI_KEYS[0] <= len(named) <= MULTI_KEYS[1]
        assert sum(occurrences(name, sample.question) for name in named) == 1


@pytest.mark.parametrize("split", SPLITS)
def test_a_multi_value_question_asks_for_all_values_of_one_key(split: Split) -> None:
    for sample in drawn(split, "multi_value"):
        assert len(sample.evidence) == len(set(sample.answers)) == MULTI_VALUES
        places = [sample.context.index(answer) for answer in sample.answers]
        assert places == sorted(places)
        (name,) = [name for name in POOLS[split].names if occurrences(name, sample.question)]
        assert all(occurrences(name, evidence) == 1 for evidence in sample.evidence)


@pytest.mark.parametrize("split", SPLITS)
def test_a_question_over_paragraphs_is_answered_by_one_of_many_like_them(split: Split) -> None:
    for sample in drawn(split, "qa", length=1000):
        (subject,) = [s for s in POOLS[split].subjects if any(name in sample.question for name in s.names)]
        (name,) = [name for name in subject.names if name in sample.question]
        (asked,) = [r for r in subject.relations if sample.question.endswith(r.asked.format(name=name))]
        told = {
            asked.told.format(short=other.split()[-1], value=value)
            for other in subject.names
            for value in asked.values
        }
        paragraphs = [line for line in sample.context.split("\n") if any(fact in line for fact in told)]
        (gold,) = [paragraph for paragraph in paragraphs if sample.evidence[0] in paragraph]
        assert name in gold
        assert len(paragraphs) >= 6
        assert len([v for v in asked.values if occurrences(v, "\n".join(paragraphs))]) > 1
        # Half of the text is paragraphs, half the haystack.
        assert words(" ".join(paragraphs)) == pytest.approx(500, abs=60)


@pytest.mark.parametrize("split", SPLITS)
def test_an_indirect_question_shares_no_content_word_with_its_needle(split: Split) -> None:
    pool = POOLS[split]
    things = {thing for kind in pool.things.values() for thing in kind}
    for tag in pool.tags:
        told = content_words(tag.told) - {"thing", "value"} | things
        asked = content_words(f"{tag.asked} {' '.join(pool.things)}") - {"kind"}
        assert not told & asked
        # Nor a word's beginning: a question after the price is not answered by something priced.
        assert not {word[:5] for word in told} & {word[:5] for word in asked}


@pytest.mark.parametrize("split", SPLITS)
def test_an_indirect_question_has_rivals_of_other_kinds(split: Split) -> None:
    pool = POOLS[split]
    for sample in drawn(split, "indirect"):
        (tag,) = [tag for tag in pool.tags if sample.lead_in.startswith(tag.lead_in.partition("{")[0])]
        before, after = tag.told.split("{thing}")[0], tag.told.partition("{thing}")[2].split("{value}")[0]
        told = re.findall(rf"{before}([a-z]+){after}\d+\.", sample.context)
        assert INDIRECT_THINGS[0] <= len(told) <= INDIRECT_THINGS[1]
        kinds = [kind for thing in told for kind, things in pool.things.items() if thing in things]
        assert len(kinds) == len(set(kinds)) == len(told)
        assert sum(occurrences(kind, sample.question) for kind in kinds) == 1


def test_the_evaluation_is_not_monotonous() -> None:
    pool = POOLS["evaluation"]
    assert sum(len(things) for things in pool.things.values()) >= 30
    assert len(pool.names) >= 40
    assert len(pool.families) >= 8
    assert sum(len(subject.relations) for subject in pool.subjects) >= 20
    for kind in KINDS:
        found = drawn("evaluation", kind, count=200, length=1)
        assert len({(sample.question, sample.evidence) for sample in found}) > 150


@pytest.mark.parametrize("split", SPLITS)
def test_every_text_of_a_pool_is_one_sentence(split: Split) -> None:
    pool = POOLS[split]
    told = [
        tag.told.format(thing=thing, value=tag.values[0])
        for tag in pool.tags
        for things in pool.things.values()
        for thing in things
    ]
    for family in pool.families:
        told += [family.told.format(name="Ann", value=value) for value in family.values[:20]]
    for subject in pool.subjects:
        told += [opening.format(name=name) for opening in subject.openings for name in subject.names]
        told += [r.told.format(short="Ann", value=value) for r in subject.relations for value in r.values]
    for text in told:
        assert len(sentences.split(f"And so it was. {text}. And it came to pass.")) == 3


@pytest.mark.parametrize("split", SPLITS)
def test_no_name_or_value_is_a_word_of_the_haystack(split: Split) -> None:
    pool = POOLS[split]
    hay = set(re.findall(r"[a-z]+", " ".join(haystack.sentences(pool.books)).lower()))
    names = [*pool.names, *(name for subject in pool.subjects for name in subject.names)]
    values = word_values(split)
    assert not {word.lower() for text in [*names, *values] for word in text.split()} & hay


@pytest.mark.parametrize("split", SPLITS)
def test_no_value_of_a_pool_occurs_in_two_of_its_relations(split: Split) -> None:
    values = [value.lower() for value in word_values(split)]
    assert len(set(values)) == len(values)


def test_without_the_text_the_extra_to_install_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    def absent(name: str) -> None:
        raise PackageNotFoundError(name)

    haystack._books.cache_clear()
    haystack.sentences.cache_clear()
    monkeypatch.setattr(haystack, "distribution", absent)

    with pytest.raises(SamplesError, match=r"ropeway\[calibrate\]"):
        generated(count=1)
