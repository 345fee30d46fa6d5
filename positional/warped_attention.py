"""Attention under a warp without a rotation of every pair: one rotated product for each piece of it."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import torch

from positional.phases import rotate, rotation_rows
from positional.profile import Pairing, Profile
from positional.warps import Warp

BLOCK = 128
"""Queries at a time of one head: their logits over 4,000 keys take 2 MB and stay in a processor's cache."""


@dataclass(frozen=True, slots=True, eq=False)
class _Turned:
    """One head's queries [queries, width] and keys [keys, width], turned as a piece says."""

    query: torch.Tensor
    key: torch.Tensor
    nearest: int


@dataclass(frozen=True, slots=True, eq=False)
class _Rows:
    """The cos | sin rows of a piece: [tokens, 2 × planes], or [heads, tokens, 2 × planes]."""

    query: torch.Tensor
    key: torch.Tensor
    nearest: int
    pairing: Pairing

    def turn(self, query: torch.Tensor, key: torch.Tensor, head: int) -> _Turned:
        """One head's queries and keys."""
        query_rows, key_rows = (rows if rows.dim() == 2 else rows[head] for rows in (self.query, self.key))
        return _Turned(
            rotate(query, query_rows, self.pairing), rotate(key, key_rows, self.pairing), self.nearest
        )


def warped_attention(
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    warp: Warp,
    profile: Profile,
    *,
    scale: float | None = None,
    block: int = BLOCK,
) -> torch.Tensor:
    """Causal attention with the warp's displacements: [queries, heads, value width].

    `query` [queries, heads, width], `key` [keys, kv_heads, width], `value` [keys, kv_heads, value width] are
    unrotated. Keys are those of all tokens from the first on, queries those of the last tokens; heads share
    kv heads in groups of neighbours. `scale`: width^−½ by default. Logits exist for `block` queries at once.
    """
    rows_of_pieces = _rows(query, key, warp, profile)
    group = query.shape[1] // key.shape[1]
    output = value.new_empty(len(query), query.shape[1], value.shape[-1])
    for head in range(query.shape[1]):
        turned = _turned(query, key, head, rows_of_pieces, scale)
        read = value[:, head // group].contiguous()
        for start in range(0, len(query), block):
            rows = range(start, min(start + block, len(query)))
            weights = _weights(turned, rows)
            output[rows.start : rows.stop, head] = weights @ read[: weights.shape[1]]
    return output


def last_weights(
    query: torch.Tensor, key: torch.Tensor, warp: Warp, profile: Profile, *, scale: float | None = None
) -> torch.Tensor:
    """What the last token reads of every key: [heads, keys]; arguments as in `warped_attention`."""
    query = query[-1:]
    rows_of_pieces = _rows(query, key, warp, profile)
    heads = range(query.shape[1])
    return torch.cat([_weights(_turned(query, key, head, rows_of_pieces, scale), range(1)) for head in heads])


def _rows(query: torch.Tensor, key: torch.Tensor, warp: Warp, profile: Profile) -> list[_Rows]:
    places = torch.arange(len(key))

    def rows(positions: torch.Tensor) -> torch.Tensor:
        return rotation_rows(positions[..., None], profile, query.dtype).to(query.device)

    return [
        _Rows(rows(piece.queries), rows(piece.keys), piece.nearest, profile.pairing)
        for piece in warp.pieces(places[len(key) - len(query) :], places)
    ]


def _turned(
    query: torch.Tensor, key: torch.Tensor, head: int, pieces: Sequence[_Rows], scale: float | None
) -> list[_Turned]:
    scaled = query[:, head] * (1 / math.sqrt(query.shape[-1]) if scale is None else scale)
    own_key = key[:, head // (query.shape[1] // key.shape[1])]
    return [piece.turn(scaled, own_key, head) for piece in pieces]


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
