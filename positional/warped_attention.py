"""Attention under warps without a rotation of every pair: one rotated product for each piece of a warp."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

import torch

from positional.phases import rotate, rotation_rows
from positional.profile import Profile
from positional.warps import Warp

BLOCK = 128
"""Queries at a time of one head: their logits over 4,000 keys take 2 MB and stay in a processor's cache."""


@dataclass(frozen=True, slots=True, eq=False)
class _Turned:
    """One head's queries [queries, width] and keys [keys, width], turned as a piece says."""

    query: torch.Tensor
    key: torch.Tensor
    nearest: int


def warped_attention(
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    warps: Sequence[Warp],
    profile: Profile,
    *,
    scale: float | None = None,
    block: int = BLOCK,
) -> torch.Tensor:
    """Causal attention with the displacements of each head's warp: [queries, heads, value width].

    `query` [queries, heads, width], `key` [keys, kv_heads, width], `value` [keys, kv_heads, value width] are
    unrotated. Keys are those of all tokens from the first on, queries those of the last tokens; heads share
    kv heads in groups of neighbours. `scale`: width^−½ by default. Logits exist for `block` queries at once.
    """
    group = query.shape[1] // key.shape[1]
    output = value.new_empty(len(query), query.shape[1], value.shape[-1])
    for head, warp in enumerate(warps):
        turned = _turned(query[:, head], key[:, head // group], warp, profile, scale)
        read = value[:, head // group].contiguous()
        for start in range(0, len(query), block):
            rows = range(start, min(start + block, len(query)))
            weights = _weights(turned, rows)
            output[rows.start : rows.stop, head] = weights @ read[: weights.shape[1]]
    return output


def last_weights(
    query: torch.Tensor, key: torch.Tensor, warp: Warp, profile: Profile, *, scale: float | None = None
) -> torch.Tensor:
    """What the last token reads of every key by one warp: [heads, keys]; else as in `warped_attention`."""
    group = query.shape[1] // key.shape[1]
    heads = (
        _turned(query[-1:, head], key[:, head // group], warp, profile, scale)
        for head in range(query.shape[1])
    )
    return torch.cat([_weights(turned, range(1)) for turned in heads])


def _turned(
    query: torch.Tensor, key: torch.Tensor, warp: Warp, profile: Profile, scale: float | None
) -> list[_Turned]:
    """One head's `query` [queries, width] and `key` [keys, width] by each piece."""
    query = query * (1 / math.sqrt(query.shape[-1]) if scale is None else scale)
    pieces = _rows(warp, len(key), len(query), profile, query.dtype, query.device)
    return [
        _Turned(rotate(query, query_rows, profile.pairing), rotate(key, key_rows, profile.pairing), nearest)
        for query_rows, key_rows, nearest in pieces
    ]


# Every layer asks for the same.
@lru_cache(maxsize=64)
def _rows(
    warp: Warp, keys: int, queries: int, profile: Profile, dtype: torch.dtype, device: torch.device
) -> list[tuple[torch.Tensor, torch.Tensor, int]]:
    """The cos | sin rows of queries and keys by each piece, and from which distance on it holds."""
    places = torch.arange(keys)

    def rows(positions: torch.Tensor) -> torch.Tensor:
        return rotation_rows(positions[:, None], profile, dtype).to(device)

    return [
        (rows(piece.queries), rows(piece.keys), piece.nearest)
        for piece in warp.pieces(places[keys - queries :], places)
    ]


def _weights(turned: Sequence[_Turned], rows: range) -> torch.Tensor:
    """What some rows of a head's queries read of the keys up to the last row's own: [rows, keys]."""
    before = len(turned[0].key) - len(turned[0].query)
    first, count = before + rows.start, before + rows.stop
    places = torch.arange(count, device=turned[0].key.device)
    logits = turned[0].query.new_empty(len(rows), count)
    seam = count
    for index, piece in enumerate(turned):
        # Only keys that are near enough for the first row and far enough for the last.
        next_nearest = turned[index + 1].nearest if index + 1 < len(turned) else count
        low, high = max(0, first - next_nearest + 1), count - piece.nearest
        if high <= low:
            break
        part = piece.query[rows.start : rows.stop] @ piece.key[low:high].T
        is_far = places[first:, None] - places[seam:high] >= piece.nearest
        logits[:, seam:high] = torch.where(is_far, part[:, seam - low :], logits[:, seam:high])
        logits[:, low:seam] = part[:, : seam - low]
        seam = low
    logits[:, first:].masked_fill_(places[first:, None] < places[first:], -math.inf)
    return logits.softmax(dim=-1)
