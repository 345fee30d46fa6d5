"""Weights that belong to heads, of which a rank holds its own."""

from typing import Any

import torch
from torch import nn
from vllm.distributed import get_tensor_model_parallel_rank, get_tensor_model_parallel_world_size


def head_weights(heads: int, *shape: int) -> nn.Parameter:
    """A float32 parameter [heads of this rank, *shape], loaded from a checkpoint's [heads, *shape].

    As for key heads, several ranks hold a copy of the same head where there are more ranks than heads.
    """
    rank, ranks = get_tensor_model_parallel_rank(), get_tensor_model_parallel_world_size()
    local = max(1, heads // ranks)
    parameter: Any = nn.Parameter(torch.zeros(local, *shape, dtype=torch.float32), requires_grad=False)

    def load(target: torch.Tensor, loaded: torch.Tensor) -> None:
        """As vLLM's weight loaders; raises ValueError for another shape."""
        if loaded.shape != (heads, *shape):
            raise ValueError(f"weights of {heads} heads are of {list(shape)} each, not {list(loaded.shape)}")
        target.data.copy_(loaded.narrow(0, rank * heads // ranks, local))

    parameter.weight_loader = load
    return parameter
