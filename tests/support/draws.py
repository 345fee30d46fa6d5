"""Numbers that are drawn the same each time."""

import torch


def normal(seed: int, *shape: int) -> torch.Tensor:
    """Standard normal numbers, float64 [*shape]."""
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)
