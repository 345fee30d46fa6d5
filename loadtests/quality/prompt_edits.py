"""Prompts rewritten by lexical relevance, the baselines that move text and not positions.

QGPM paper, section 5.3 and appendix C, "Input editing"; its ranker is a model of 4B parameters, ours BM25,
which needs no weights.
"""

from collections.abc import Sequence
from dataclasses import replace

import bm25s
import numpy as np

from server.samples import Sample
from server.sentences import split

KEPT = 5
"""Chunks that Top-K keeps (paper, appendix C)."""

CHUNK_WORDS = 50
"""Words of a chunk, to within a sentence: so few that a context of 500 tokens has more than `KEPT` chunks."""


def top_k(sample: Sample) -> Sample:
    """Only the chunks that fit the question best, in the order of the text."""
    pieces = chunks(sample.context)
    return _told(sample, [pieces[index] for index in sorted(_best_first(pieces, sample.question)[:KEPT])])


def reorder(sample: Sample) -> Sample:
    """All chunks, those that fit the question best nearest to it."""
    pieces = chunks(sample.context)
    return _told(sample, [pieces[index] for index in reversed(_best_first(pieces, sample.question))])


def chunks(context: str) -> list[str]:
    """Whole sentences in chunks of at least `CHUNK_WORDS` words, but for the last."""
    made: list[list[str]] = [[]]
    for start, end in split(context):
        if len(" ".join(made[-1]).split()) >= CHUNK_WORDS:
            made.append([])
        made[-1].append(context[start:end].strip())
    return [" ".join(sentences) for sentences in made]


def _best_first(pieces: Sequence[str], question: str) -> list[int]:
    """The chunks' numbers by BM25 against the question; equal ones in the order of the text."""
    words = bm25s.tokenize(list(pieces), stopwords="en", show_progress=False)
    asked = bm25s.tokenize(question, stopwords="en", return_ids=False, show_progress=False)[0]
    ranker = bm25s.BM25()
    ranker.index(words, show_progress=False)
    known = [word for word in asked if word in ranker.vocab_dict]
    scores = ranker.get_scores(known) if known else np.zeros(len(pieces))
    return [int(index) for index in np.argsort(-scores, kind="stable")]


def _told(sample: Sample, pieces: Sequence[str]) -> Sample:
    context = " ".join(pieces)
    messages = tuple((role, text.replace(sample.context, context)) for role, text in sample.messages)
    return replace(sample, messages=messages, context=context)
