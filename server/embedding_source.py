"""Relevance by embeddings, with the document's vectors remembered."""

import asyncio
import time
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import torch

from positional.sources.contract import Asked, Reading, SourceError, SourceName
from positional.sources.similarity import similarity
from server.document_vectors import DocumentVectors, document_key
from server.embedder import Embedder, Vectors


@dataclass(frozen=True, slots=True)
class EmbeddingSource:
    """One tenant's: `salt` is its `cache_salt`, so that none sees by the time what others asked about."""

    embedder: Embedder
    known: DocumentVectors
    salt: str | None
    name: ClassVar[SourceName] = "embedding"

    async def read(self, asked: Asked) -> Reading:
        """As `Source.read`; `cost`: the texts that were `embedded`, and whether the document was `cached`."""
        started = time.perf_counter()
        key = await asyncio.to_thread(document_key, asked.sentences, self.salt)
        vectors = self.known.get(key)
        texts = [*(() if vectors is not None else asked.sentences), asked.question]
        # Half of a surrogate pair is no text to tokenizers, nor in JSON.
        found = await self.embedder.embed([text.encode(errors="replace").decode() for text in texts])
        if not np.isfinite(found).all():
            raise SourceError(self.name, "vectors that are not finite")
        if vectors is None:
            self.known.put(key, found[:-1].copy())
        z = self._similarity(found[:-1] if vectors is None else vectors, found[-1])
        cost = {"embedded": len(texts), "cached": vectors is not None}
        return Reading(self.name, z, time.perf_counter() - started, cost)

    def _similarity(self, sentences: Vectors, question: Vectors) -> torch.Tensor:
        if sentences.shape[1:] != question.shape:
            raise SourceError(self.name, "vectors of another width than before")
        return similarity(torch.from_numpy(sentences), torch.from_numpy(question))
