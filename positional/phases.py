"""Positions to cosines and sines, and their application to queries and keys."""

import math

import torch

from positional.profile import Pairing, Profile


def rotation_rows(positions: torch.Tensor, profile: Profile, dtype: torch.dtype) -> torch.Tensor:
    """cos | sin rows of `positions` float64 [tokens, planes]: `dtype` [tokens, 2 × planes].

    Angles are taken in float64 and reduced, so that every plane keeps its phase at any position; the
    attention factor is applied once (QGPM paper, section 3.1).
    """
    angles = torch.remainder(positions.double() * profile.inverse_frequencies, 2 * math.pi)
    rows = torch.cat((angles.cos(), angles.sin()), dim=-1)
    return (rows * profile.attention_factor).to(dtype)


def rotate(vectors: torch.Tensor, rows: torch.Tensor, pairing: Pairing) -> torch.Tensor:
    """Rotate the first 2 × planes dimensions of `vectors` [tokens, …, width] by `rows` [tokens, 2 × planes].

    Plane m pairs dimensions (m, m + planes) for "half" and (2m, 2m + 1) for "interleaved".
    """
    width = rows.shape[-1]
    cos, sin = (r.reshape(r.shape[0], *[1] * (vectors.dim() - 2), -1) for r in rows.chunk(2, dim=-1))
    turned, kept = vectors[..., :width], vectors[..., width:]
    if pairing == "half":
        first, second = turned.chunk(2, dim=-1)
        rotated = torch.cat((first * cos - second * sin, second * cos + first * sin), dim=-1)
    else:
        first, second = turned[..., 0::2], turned[..., 1::2]
        rotated = torch.stack((first * cos - second * sin, second * cos + first * sin), dim=-1).flatten(-2)
    return torch.cat((rotated, kept), dim=-1)
