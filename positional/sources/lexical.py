"""Relevance by shared words: BM25 of each sentence for the question (Robertson and Zaragoza, 2009)."""

import asyncio
import logging
import time
from collections.abc import Sequence

import bm25s
import torch

from positional.relevance import standardise
from positional.sources.contract import Asked, Reading, SourceName
from positional.sources.terms import terms

# The library asks for its debugging messages on import, one for each index.
logging.getLogger("bm25s").setLevel(logging.WARNING)

_SATURATION = 0.5
"""k1; b is 0: in a sentence, which is short, repeating a term says little, and length nothing."""


class LexicalSource:
    """Needs neither the model nor a network, so that a request costs one prefill."""

    name: SourceName = "lexical"

    async def read(self, asked: Asked) -> Reading:
        """The relevance of every sentence, off the event loop; `cost`: `shared_terms`."""
        return await asyncio.to_thread(self.read_here, asked)

    def read_here(self, asked: Asked) -> Reading:
        """As `read`, on this thread."""
        started = time.perf_counter()
        told = terms([*asked.sentences, asked.question])
        scores, found = bm25(told[:-1], told[-1])
        z = standardise(scores[:, None])
        shared = shared_terms(told[:-1], told[-1])
        took = time.perf_counter() - started
        cost = {"shared_terms": found}
        return Reading(self.name, z, took, cost, shared=shared, terms=len(set(told[-1])))


def shared_terms(documents: Sequence[Sequence[str]], query: Sequence[str]) -> torch.Tensor:
    """How many different terms of the query each document holds, int64 [documents]."""
    wanted = set(query)
    return torch.tensor([len(wanted.intersection(document)) for document in documents], dtype=torch.int64)


def bm25(documents: Sequence[Sequence[str]], query: Sequence[str]) -> tuple[torch.Tensor, int]:
    """Scores float64 [documents] of lists of terms, and how many terms of the query they hold at all.

    Each term of the query counts once.
    """
    held = {term for document in documents for term in document}
    shared = [term for term in dict.fromkeys(query) if term in held]
    if not shared:
        return torch.zeros(len(documents), dtype=torch.float64), 0
    ranker = bm25s.BM25(k1=_SATURATION, b=0.0)
    ranker.index([list(document) for document in documents], show_progress=False)
    return torch.from_numpy(ranker.get_scores(shared)).double(), len(shared)
