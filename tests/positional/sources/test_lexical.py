"""Relevance by shared words."""

import math
from collections import Counter
from collections.abc import Sequence

import pytest
import torch

from positional.relevance import rank
from positional.sources.contract import Asked
from positional.sources.lexical import LexicalSource, bm25, shared_terms

SENTENCES = (
    "The ferry to Brack leaves at seven.",
    " Nadia keeps the keys of the lighthouse.",
    " The harbour freezes in January.",
    " The lighthouse was built of grey stone.",
)


def _direct(documents: Sequence[Sequence[str]], query: Sequence[str]) -> list[float]:
    """BM25 as Lucene has it: k1 = 0.5, b = 0."""
    scores = []
    for document in documents:
        counts, score = Counter(document), 0.0
        for term in dict.fromkeys(query):
            holding = sum(term in other for other in documents)
            weight = math.log(1 + (len(documents) - holding + 0.5) / (holding + 0.5))
            count = counts[term]
            score += weight * count / (count + 0.5)
        scores.append(score)
    return scores


def test_scores_are_those_of_the_formula() -> None:
    documents = [["a", "b", "a"], ["b", "c"], ["c", "c", "d", "e"], ["e"]]
    query = ["a", "c", "c", "z"]
    scores, shared = bm25(documents, query)
    assert scores.tolist() == pytest.approx(_direct(documents, query), rel=1e-5)
    assert shared == 2


def test_sentences_that_share_the_same_terms_score_alike_however_long_they_are() -> None:
    short, long = ["key", "lies", "there"], ["key", "lies", *map(str, range(40))]
    scores, _ = bm25([short, long, ["key"], ["other"]], ["key", "lies"])
    assert scores[0] == scores[1] > scores[2] > scores[3] == 0


async def test_the_sentence_that_shares_the_rarest_words_comes_first() -> None:
    found = await LexicalSource().read(Asked(SENTENCES, "Who keeps the key of the lighthouse?"))
    assert rank(found.z).tolist()[:4] == [2, 0, 3, 1]
    assert found.source == "lexical"
    assert found.cost == {"shared_terms": 3}
    assert found.seconds > 0
    assert found.z.dtype == torch.float64
    assert float(found.z.mean()) == pytest.approx(0, abs=1e-9)
    assert float(found.z.std(correction=0)) == pytest.approx(1)


@pytest.mark.parametrize("question", ["Who is it?", "", "Which violin?"])
async def test_a_question_without_a_shared_term_tells_no_sentence_from_another(question: str) -> None:
    found = await LexicalSource().read(Asked(SENTENCES, question))
    assert found.z.tolist() == [0, 0, 0, 0]
    assert found.cost == {"shared_terms": 0}


async def test_sentences_without_terms_are_ranked_too() -> None:
    found = await LexicalSource().read(Asked(("…", "the key", " "), "a key"))
    assert rank(found.z).tolist()[1] == 0


def test_terms_are_counted_once_however_often_they_stand_there() -> None:
    documents = [["a", "b", "a"], ["b", "c"], [], ["z"]]
    assert shared_terms(documents, ["a", "b", "b", "x"]).tolist() == [2, 1, 0, 0]
    assert shared_terms(documents, []).tolist() == [0, 0, 0, 0]


def test_a_reading_tells_how_many_of_the_questions_terms_each_sentence_holds() -> None:
    asked = Asked(SENTENCES, "Which harbour did the governor of Zembla visit?")
    found = LexicalSource().read_here(asked)
    assert found.shared is not None
    assert (found.shared.tolist(), found.terms) == ([0, 0, 1, 0], 4)
