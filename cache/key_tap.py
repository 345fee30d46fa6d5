"""Copies of the step's rotated queries and keys of a layer's relevance heads."""

import torch
from torch import nn


class KeyTap(nn.Module):
    """Writes chosen heads of one layer into persistent step buffers, inside the traced graph.

    `queries` [heads, max_tokens, width] and `keys` [kv heads, max_tokens, width] in the model's dtype.
    """

    queries: torch.Tensor
    keys: torch.Tensor

    def __init__(
        self,
        query_heads: tuple[int, ...],
        kv_heads: tuple[int, ...],
        head_size: int,
        max_tokens: int,
        dtype: torch.dtype,
        device: torch.device,
    ) -> None:
        super().__init__()
        self.query_heads = query_heads
        self.kv_heads = kv_heads
        self.head_size = head_size
        shape = (max_tokens, head_size)
        self.register_buffer(
            "queries", torch.zeros(len(query_heads), *shape, dtype=dtype, device=device), persistent=False
        )
        self.register_buffer(
            "keys", torch.zeros(len(kv_heads), *shape, dtype=dtype, device=device), persistent=False
        )

    def forward(self, query: torch.Tensor, key: torch.Tensor) -> None:
        """Copy the heads of `query` and `key` [tokens, heads × width]."""
        tokens = query.shape[0]
        by_head = query.view(tokens, -1, self.head_size)
        for row, head in enumerate(self.query_heads):
            self.queries[row, :tokens].copy_(by_head[:, head])
        by_head = key.view(tokens, -1, self.head_size)
        for row, head in enumerate(self.kv_heads):
            self.keys[row, :tokens].copy_(by_head[:, head])
