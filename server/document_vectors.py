"""The vectors of documents that were embedded lately."""

from collections import OrderedDict
from collections.abc import Sequence
from hashlib import sha256
from struct import pack

from server.embedder import Vectors

DEFAULT_BYTES = 64 << 20
# What an entry takes beside its key and its vectors.
_ENTRY_BYTES = 400


class DocumentVectors:
    """Bounded by `limit` bytes, 0 keeps none; the least recently used document goes first. For one thread."""

    def __init__(self, limit: int = DEFAULT_BYTES) -> None:
        self.limit = limit
        self.bytes = 0
        self._kept: OrderedDict[bytes, Vectors] = OrderedDict()

    def get(self, key: bytes) -> Vectors | None:
        """The vectors of a document's sentences, None for an unknown one."""
        vectors = self._kept.get(key)
        if vectors is not None:
            self._kept.move_to_end(key)
        return vectors

    def put(self, key: bytes, vectors: Vectors) -> None:
        """Keep them, unless they are larger than the limit alone."""
        size = vectors.nbytes + _ENTRY_BYTES
        if size > self.limit:
            return
        self._drop(key)
        self._kept[key] = vectors
        self.bytes += size
        while self.bytes > self.limit:
            self._drop(next(iter(self._kept)))

    def _drop(self, key: bytes) -> None:
        vectors = self._kept.pop(key, None)
        if vectors is not None:
            self.bytes -= vectors.nbytes + _ENTRY_BYTES


def document_key(sentences: Sequence[str], salt: str | None) -> bytes:
    """SHA-256 over the tenant's `cache_salt` and the sentences, each with its length."""
    hashed = sha256(b"ropeway document 1" if salt is None else b"ropeway salted document 1")
    for text in (*(() if salt is None else (salt,)), *sentences):
        data = text.encode("utf-8", "surrogatepass")
        hashed.update(pack("<Q", len(data)))
        hashed.update(data)
    return hashed.digest()
