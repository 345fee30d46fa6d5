"""Which keys a query may read, from absolute positions: causal, window, chunk, documents.

Every mask is bool [queries, keys], True where the query reads the key, as torch's attention takes it.
Positions are int64 and absolute, so that queries and keys may be any part of a sequence: a chunk, a decoded
token, the keys of a cache.
"""

import torch

# Served as seeing the token `sliding_window` back too, although transformers masks it.
_ONE_MORE = ("cohere2", "cohere2_moe")


class MaskError(ValueError):
    """A mask that cannot be built: the field, the value and the reason."""

    def __init__(self, field: str, value: object, reason: str) -> None:
        self.field = field
        self.value = value
        self.reason = reason
        super().__init__(f"{field}: {reason} (got {value!r})")


def tokens_seen(model_type: str, sliding_window: int) -> int:
    """Tokens that a windowed layer sees as vLLM serves it, the query's own included.

    `model_type` and `sliding_window` are a configuration's. A query of most models sees itself and
    `sliding_window` − 1 tokens before it; Cohere 2 sees one more. Raises MaskError.
    """
    return _counted("sliding_window", sliding_window) + (model_type in _ONE_MORE)


def causal(queries: torch.Tensor, keys: torch.Tensor) -> torch.Tensor:
    """Keys at or before the query (Vaswani et al. 2017, section 3.2.3).

    `queries` [queries] and `keys` [keys] are positions; so they are in all masks here.
    """
    return keys[None, :] <= queries[:, None]


def in_window(queries: torch.Tensor, keys: torch.Tensor, seen: int) -> torch.Tensor:
    """Keys fewer than `seen` tokens before the query, or behind it (Beltagy et al. 2020, section 3.1).

    Restricts only backwards: it is the causal mask that hides what comes later. Raises MaskError.
    """
    return keys[None, :] > queries[:, None] - _counted("window", seen)


def in_chunk(queries: torch.Tensor, keys: torch.Tensor, size: int) -> torch.Tensor:
    """Keys in the query's own chunk of `size` positions (Llama 4's rotary layers). Raises MaskError."""
    _counted("chunk", size)
    return keys[None, :] // size == queries[:, None] // size


def same_document(queries: torch.Tensor, keys: torch.Tensor) -> torch.Tensor:
    """Keys of the query's own document, where several are packed into one sequence.

    `queries` [queries] and `keys` [keys] are document numbers, int64.
    """
    return keys[None, :] == queries[:, None]


def visible(
    queries: torch.Tensor,
    keys: torch.Tensor,
    *,
    window: int | None = None,
    chunk: int | None = None,
    documents: tuple[torch.Tensor, torch.Tensor] | None = None,
) -> torch.Tensor:
    """What one layer's queries read: always causal, inside the document, and as far as its window.

    A global layer has neither `window` (tokens seen) nor `chunk` (positions); what kind a layer is changes
    nothing of the causal and document masks. `documents`: numbers of the queries' and of the keys'.
    Raises MaskError.
    """
    mask = causal(queries, keys)
    if window is not None:
        mask &= in_window(queries, keys, window)
    if chunk is not None:
        mask &= in_chunk(queries, keys, chunk)
    if documents is not None:
        _check_documents(documents, mask.shape)
        mask &= same_document(*documents)
    return mask


def _counted(field: str, value: int) -> int:
    if isinstance(value, bool) or value < 1:
        raise MaskError(field, value, "must be at least 1 token")
    return value


def _check_documents(documents: tuple[torch.Tensor, torch.Tensor], shape: torch.Size) -> None:
    numbered = tuple(len(numbers) for numbers in documents)
    if numbered != tuple(shape):
        raise MaskError("documents", numbered, f"must number {shape[0]} queries and {shape[1]} keys")
