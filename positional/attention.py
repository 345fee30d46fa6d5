"""Attention written plainly: what every kernel that serves a layer is compared with."""

import math
from dataclasses import dataclass

import torch

from positional.phases import rotate, rotation_rows
from positional.profile import Pairing, Profile


class BlindQueryError(ValueError):
    """Queries that may read no key at all have no attention; `queries` are their rows."""

    def __init__(self, queries: tuple[int, ...]) -> None:
        self.queries = queries
        super().__init__(f"queries without a visible key: {', '.join(map(str, queries))}")


@dataclass(frozen=True, slots=True, eq=False)
class Rotation:
    """How a rotary layer turns queries and keys: cos | sin rows of each, and the pairing of planes.

    `query_rows` [queries, 2 × planes], `key_rows` [keys, 2 × planes]. They are apart because a cached key
    and a decoded query stand at different places.
    """

    query_rows: torch.Tensor
    key_rows: torch.Tensor
    pairing: Pairing = "half"

    @staticmethod
    def of(
        profile: Profile, queries: torch.Tensor, keys: torch.Tensor, dtype: torch.dtype = torch.float64
    ) -> "Rotation":
        """By a profile, at positions [tokens], or [tokens, planes] where every plane has its own."""

        def rows(positions: torch.Tensor) -> torch.Tensor:
            return rotation_rows(_on_planes(positions, profile), profile, dtype)

        return Rotation(rows(queries), rows(keys), profile.pairing)


def attend(
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    visible: torch.Tensor,
    rotation: Rotation | None = None,
    *,
    scale: float | None = None,
    query_scale: torch.Tensor | None = None,
    bias: torch.Tensor | None = None,
) -> torch.Tensor:
    """softmax(q·k × scale + bias) over visible keys, times values: [queries, heads, value width].

    `query` [queries, heads, width], `key` [keys, kv_heads, width] and `value` [keys, kv_heads, value width]
    are unrotated, float32 or float64; heads share kv heads in groups of neighbours (Ainslie et al. 2023).
    `visible` bool [queries, keys], as `positional.masks` makes it. Without a rotation the layer is NoPE:
    nothing is turned, whatever the positions (Su et al. 2021, section 3.2; Kazemnejad et al. 2023).
    `scale`: width^−½ by default. `query_scale` [queries]: a factor of each query of its own. `bias` [heads,
    queries, keys]: none by default.
    Raises BlindQueryError.
    """
    blind = torch.nonzero(~visible.any(dim=1))[:, 0].tolist()
    if blind:
        raise BlindQueryError(tuple(blind))
    if rotation is not None:
        query = rotate(query, rotation.query_rows.to(query.dtype), rotation.pairing)
        key = rotate(key, rotation.key_rows.to(key.dtype), rotation.pairing)
    if query_scale is not None:
        query = query * query_scale[:, None, None]
    group = query.shape[1] // key.shape[1]
    key, value = (tensor.repeat_interleave(group, dim=1) for tensor in (key, value))
    logits = torch.einsum("qhw,khw->hqk", query, key)
    logits = logits * (1 / math.sqrt(query.shape[-1]) if scale is None else scale)
    if bias is not None:
        logits = logits + bias
    weights = logits.masked_fill(~visible, -math.inf).softmax(dim=-1)
    return torch.einsum("hqk,khw->qhw", weights, value)


def _on_planes(positions: torch.Tensor, profile: Profile) -> torch.Tensor:
    return positions if positions.dim() == 2 else positions[:, None].expand(-1, profile.planes)
