"""Attention under a warp without a rotation of every pair: one rotated product for each piece of it."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import torch

from positional.phases import rotate, rotation_rows
from positional.profile import Profile
from positional.warps import Warp

BLOCK = 128
"""Queries at a time: their logits over 4,000 keys take 2 MB a head."""


@dataclass(frozen=True, slots=True, eq=False)
class _Turned:
    """Queries [heads, queries, width] and keys [heads, keys, width] turned as one piece says."""

    query: torch.Tensor
    key: torch.Tensor
    nearest: int


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
    turned = _turned(query, key, warp, profile, scale)
    value = _of_each_head(value, query.shape[1])
    output = value.new_empty(len(query), query.shape[1], value.shape[-1])
    for start in range(0, len(query), block):
        rows = range(start, min(start + block, len(query)))
        weights = _weights(turned, rows, len(key) - len(query))
        output[rows.start : rows.stop] = (weights @ value[:, : weights.shape[-1]]).transpose(0, 1)
    return output


def last_weights(
    query: torch.Tensor, key: torch.Tensor, warp: Warp, profile: Profile, *, scale: float | None = None
) -> torch.Tensor:
    """What the last token reads of every key: [heads, keys]; arguments as in `warped_attention`."""
    turned = _turned(query[-1:], key, warp, profile, scale)
    return _weights(turned, range(1), len(key) - 1)[:, 0]


def _turned(
    query: torch.Tensor, key: torch.Tensor, warp: Warp, profile: Profile, scale: float | None
) -> list[_Turned]:
    places = torch.arange(len(key), device=key.device)
    pieces = warp.pieces(places[len(key) - len(query) :], places)
    key = _of_each_head(key, query.shape[1])
    query = query.transpose(0, 1) * (1 / math.sqrt(query.shape[-1]) if scale is None else scale)
    return [
        _Turned(_turn(query, piece.queries, profile), _turn(key, piece.keys, profile), piece.nearest)
        for piece in pieces
    ]


def _turn(vectors: torch.Tensor, positions: torch.Tensor, profile: Profile) -> torch.Tensor:
    """`vectors` [heads, tokens, width] at `positions` [tokens] or [heads, tokens]."""
    rows = rotation_rows(positions[..., None].cpu(), profile, vectors.dtype).to(vectors.device)
    if positions.dim() == 1:
        return rotate(vectors.transpose(0, 1), rows, profile.pairing).transpose(0, 1).contiguous()
    turned = rotate(vectors.flatten(0, 1), rows.flatten(0, 1), profile.pairing)
    return turned.view_as(vectors)


def _weights(turned: Sequence[_Turned], rows: range, before: int) -> torch.Tensor:
    """Attention of some of the queries, the first of all of which is token `before`: [heads, rows, keys]."""
    first, count = before + rows.start, before + rows.stop
    places = torch.arange(count, device=turned[0].key.device)
    distance = places[first:, None] - places[None, :]
    logits = turned[0].key.new_empty(len(turned[0].key), len(rows), count)
    seam = count
    for index, piece in enumerate(turned):
        # Only keys that are near enough for the first row and far enough for the last.
        next_nearest = turned[index + 1].nearest if index + 1 < len(turned) else count
        low, high = max(0, first - next_nearest + 1), count - piece.nearest
        if high <= low:
            break
        part = piece.query[:, rows.start : rows.stop] @ piece.key[:, low:high].mT
        is_far = distance[:, seam:high] >= piece.nearest
        logits[..., seam:high] = torch.where(is_far, part[..., seam - low :], logits[..., seam:high])
        logits[..., low:seam] = part[..., : seam - low]
        seam = low
    logits[..., first:].masked_fill_(distance[:, first:] < 0, -math.inf)
    return logits.softmax(dim=-1)


def _of_each_head(tensor: torch.Tensor, heads: int) -> torch.Tensor:
    """[tokens, kv_heads, width] as [heads, tokens, width]."""
    return tensor.transpose(0, 1).repeat_interleave(heads // tensor.shape[1], dim=0)
