"""What an encoding says of itself: where it acts, what it needs, what a cached key holds and for how long."""

from dataclasses import dataclass
from typing import Literal, Protocol

import torch

Site = Literal["embedding", "query_key", "logit", "state"]
CacheRule = Literal["fixed", "grows", "end_point"]
Relative = Literal["exact", "phase", "no"]


class EncodingError(ValueError):
    """An encoding that cannot be: the field, the value and the reason."""

    def __init__(self, field: str, value: object, reason: str) -> None:
        self.field = field
        self.value = value
        self.reason = reason
        super().__init__(f"{field}: {reason} (got {value!r})")


@dataclass(frozen=True, slots=True)
class CacheShape:
    """One layer's cache of a content key and a value for each token, before anything is added.

    `key_width`, `value_width`: numbers of one key-value head; `element_size`: bytes of one number. A latent
    cache, whose key serves as the value too, has one head and a `value_width` of 0.
    """

    kv_heads: int
    key_width: int
    value_width: int
    element_size: int

    def __post_init__(self) -> None:
        for field, least in (("kv_heads", 1), ("key_width", 1), ("value_width", 0), ("element_size", 1)):
            if getattr(self, field) < least:
                raise EncodingError(field, getattr(self, field), f"must be at least {least}")


@dataclass(frozen=True, slots=True)
class Contract:
    """How an encoding meets a cache.

    `acts`: on the embedding, on queries and keys, on logits, or on a recurrent state.
    `needs`: what it must be told of each token, in words.
    `cached`: what a cached key holds, in words.
    `cache_rule`: how long a cached key holds it.
        "fixed": for as long as the sequence goes on;
        "grows": until the sequence grows over some length, unless that length is settled beforehand;
        "end_point": never, since what a pair gets hangs on the query that reads the key.
    `relative`: what the positional part of a score depends on, the content of query and key held.
        "exact": only on the displacement of the two positions;
        "phase": only on the difference of two phases, sums over what the tokens themselves say;
        "no": on more than that.
    `extra_dimensions`: numbers that a cached key of each head has beyond its content.
    `servable`: whether a paged cache of keys and values can hold it; `why`, in words.
    """

    acts: Site
    needs: str
    cached: str
    cache_rule: CacheRule
    relative: Relative
    extra_dimensions: int
    servable: bool
    why: str

    def __post_init__(self) -> None:
        if self.extra_dimensions < 0:
            raise EncodingError("extra_dimensions", self.extra_dimensions, "must not be negative")
        if self.servable and self.cache_rule == "end_point":
            raise EncodingError("servable", self.servable, "cannot be where no cached key holds for a query")

    @staticmethod
    def of_embedding(why: str) -> "Contract":
        """Of a position that is added to a token's embedding."""
        return Contract(
            acts="embedding",
            needs="its position",
            cached="the projected key; the position is in what it was projected from",
            cache_rule="fixed",
            relative="no",
            extra_dimensions=0,
            servable=True,
            why=why,
        )

    def bytes_per_token(self, shape: CacheShape) -> int:
        """Bytes that one layer caches of each token; a recurrent state keeps nothing of a single token."""
        if self.acts == "state":
            return 0
        width = shape.key_width + self.extra_dimensions + shape.value_width
        return shape.kv_heads * width * shape.element_size


class Encoding(Protocol):
    """An immutable encoding of one head (or of all alike): its contract, and a pair's score by definition."""

    @property
    def contract(self) -> Contract:
        """How it meets a cache."""
        ...

    def score(
        self, query: torch.Tensor, key: torch.Tensor, query_position: torch.Tensor, key_position: torch.Tensor
    ) -> torch.Tensor:
        """The logit of each pair before it is scaled: `query` and `key` [..., width], positions [...].

        Straight from the definition, in the dtype of `query`; shapes broadcast. Encodings of embeddings
        score as if the projections were the identity.
        """
        ...
