"""Vectors and their positions in one shape."""

import torch


def placed(vectors: torch.Tensor, positions: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """`vectors` [..., width] and `positions` [...] broadcast to one another: a position for each vector."""
    _, each = torch.broadcast_tensors(vectors[..., 0], positions)  # type: ignore[no-untyped-call]
    return vectors.expand(*each.shape, vectors.shape[-1]), each
