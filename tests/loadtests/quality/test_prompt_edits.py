"""Prompt edits keep whole sentences and move those that share the question's words."""

from loadtests.quality.prompt_edits import CHUNK_WORDS, KEPT, chunks, reorder, top_k
from server.sentences import split
from tests.loadtests.quality_samples import GOLD, QUESTION, small_sample

FILLER = [f"On day {day} the old miller walked along the river and counted {day} sacks." for day in range(80)]


def context_with(gold_at: int) -> str:
    return " ".join([*FILLER[:gold_at], GOLD, *FILLER[gold_at:]])


def sentences(text: str) -> list[str]:
    return [text[start:end].strip() for start, end in split(text)]


def test_chunks_are_whole_sentences_of_about_so_many_words() -> None:
    found = chunks(context_with(30))
    assert [sentence for chunk in found for sentence in sentences(chunk)] == sentences(context_with(30))
    assert all(CHUNK_WORDS <= len(chunk.split()) < CHUNK_WORDS + 15 for chunk in found[:-1])


def test_top_k_keeps_the_best_chunks_in_the_order_of_the_text() -> None:
    sample = small_sample(context_with(30))
    edited = top_k(sample)
    kept = sentences(edited.context)
    assert GOLD in kept
    assert kept == [sentence for sentence in sentences(sample.context) if sentence in set(kept)]
    assert len(chunks(edited.context)) == KEPT < len(chunks(sample.context))
    assert edited.messages[0][1] == f"Read the text.\n\n{edited.context}\n\n{QUESTION}"


def test_reorder_loses_nothing_and_puts_the_best_chunk_before_the_question() -> None:
    sample = small_sample(context_with(10))
    edited = reorder(sample)
    assert sorted(sentences(edited.context)) == sorted(sentences(sample.context))
    assert GOLD in chunks(sample.context)[2]
    assert edited.context.endswith(chunks(sample.context)[2])


def test_a_question_without_a_known_word_leaves_the_first_chunks() -> None:
    sample = small_sample(context_with(30), question="Question: Wherefore?")
    assert top_k(sample).context == " ".join(chunks(sample.context)[:KEPT])
