"""Who turns texts into vectors: an endpoint that speaks OpenAI's API, or a model that comes in a package."""

import asyncio
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt
from openai import AsyncOpenAI, OpenAIError

from positional.sources.contract import SourceError

Vectors = npt.NDArray[np.float32]
"""One row a text."""

PACKAGE = "wordllama"
"""The package whose model needs no endpoint."""

TIMEOUT_SECONDS = 10.0
_BATCH = 256
_AT_ONCE = 4
# Fits the windows of most embedding models, which refuse a longer text.
_LONGEST = 2_000


class Embedder(Protocol):
    """Texts to vectors."""

    async def embed(self, texts: Sequence[str]) -> Vectors:
        """The vectors of at least one text; raises SourceError."""


class EmbeddingEndpoint:
    """Asks `POST {url}/embeddings`, in batches, some at once; a failed one is tried again."""

    def __init__(self, url: str, model: str, key: str | None, timeout: float = TIMEOUT_SECONDS) -> None:
        """`timeout` of one try in seconds."""
        self._model = model
        self._client = AsyncOpenAI(base_url=url, api_key=key or "none", timeout=timeout, max_retries=1)
        self._turns = asyncio.Semaphore(_AT_ONCE)

    async def embed(self, texts: Sequence[str]) -> Vectors:
        """As `Embedder.embed`; of an endpoint's error only the kind is told, as it may repeat the texts."""
        batches = [texts[at : at + _BATCH] for at in range(0, len(texts), _BATCH)]
        try:
            return np.concatenate(await asyncio.gather(*map(self._batch, batches)))
        except OpenAIError as error:
            raise SourceError("embedding", type(error).__name__) from None
        except (AttributeError, TypeError, ValueError):  # the client checks no answer's shape
            raise SourceError("embedding", "no answer of vectors of one width") from None

    async def _batch(self, texts: Sequence[str]) -> Vectors:
        # Endpoints refuse an empty text.
        asked = [text.strip()[:_LONGEST] or "." for text in texts]
        async with self._turns:
            answer = await self._client.embeddings.create(model=self._model, input=asked)
        vectors = sorted(answer.data, key=lambda one: one.index)
        if len(vectors) != len(texts):
            raise SourceError("embedding", f"{len(vectors)} vectors for {len(texts)} texts")
        return np.asarray([one.embedding for one in vectors], dtype=np.float32)


class PackagedEmbedder:
    """Means of static word vectors, on this machine, in another thread than the event loop's."""

    def __init__(self) -> None:
        """Loads the weights; raises ImportError where the package is not installed."""
        import wordllama

        # It looks for its own tokenizer in the cache alone, and would then ask a model hub.
        self._model: Any = wordllama.WordLlama.load(
            cache_dir=Path(wordllama.__file__).parent, disable_download=True
        )

    async def embed(self, texts: Sequence[str]) -> Vectors:
        """As `Embedder.embed`."""
        return await asyncio.to_thread(self._embed, list(texts))

    def _embed(self, texts: list[str]) -> Vectors:
        vectors: Vectors = self._model.embed(texts)
        return vectors
