"""The rotary modules that layers call instead of the stock ones: the step's rows as their table.

Each goes through the stock module's own dispatch (fused kernel or native code), with the rows of the
layer's map in place of the table and 0, 1, 2 … as positions.
"""

import copy
from typing import Any

import torch
from torch import nn
from vllm.model_executor.layers.rotary_embedding.base import RotaryEmbedding
from vllm.model_executor.layers.rotary_embedding.phi3_long_rope_scaled_rope import (
    Phi3LongRoPEScaledRotaryEmbedding,
)

from cache.key_tap import KeyTap


class UnsupportedRotaryError(RuntimeError):
    """A rotary module whose table cannot be replaced by the step's rows."""

    def __init__(self, rotary: nn.Module) -> None:
        super().__init__(f"{type(rotary).__name__} is not a rotary module that takes the step's rows")


def stock_table(rotary: Any) -> torch.Tensor:
    """The stock module's cos | sin rows by position: [positions, rotary_dim]."""
    if isinstance(rotary, Phi3LongRoPEScaledRotaryEmbedding):
        short = rotary.original_max_position_embeddings
        table: torch.Tensor = rotary.long_short_cos_sin_cache
        return table[short:] if rotary.use_long_rope else table[:short]
    if not _dispatches_like_the_base(rotary):
        raise UnsupportedRotaryError(rotary)
    cos_sin_cache: torch.Tensor = rotary.cos_sin_cache
    return cos_sin_cache


def _dispatches_like_the_base(rotary: Any) -> bool:
    """Whether a module only brings a table of its own and rotates by vLLM's base code."""
    kind = type(rotary)
    return (
        isinstance(rotary, RotaryEmbedding)
        and kind.forward is RotaryEmbedding.forward
        and kind.forward_native is RotaryEmbedding.forward_native
        and not rotary.use_flashinfer
        and not rotary.use_aiter
    )


def _with_table(rotary: Any, rows: torch.Tensor) -> nn.Module:
    """A twin of a stock module that reads `rows` by index instead of its table by position."""
    twin = copy.copy(rotary)
    twin._buffers = dict(rotary._buffers)
    if isinstance(twin, Phi3LongRoPEScaledRotaryEmbedding):
        twin.long_short_cos_sin_cache = rows
        twin.use_long_rope = False
    elif _dispatches_like_the_base(rotary):
        twin.cos_sin_cache = rows
        twin._forward_method = getattr(twin, rotary._forward_method.__name__)
    else:
        raise UnsupportedRotaryError(rotary)
    return twin


class MappedRotary(nn.Module):
    """Rotates the step's queries and keys by one map's rows, and shows them to a tap where one reads."""

    index: torch.Tensor

    def __init__(self, stock: nn.Module, rows: torch.Tensor, index: torch.Tensor, tap: KeyTap | None) -> None:
        """`rows` [max_tokens, rotary_dim] in the model's dtype; `index` int64 [max_tokens], 0, 1, 2 …"""
        super().__init__()
        self.rotary = _with_table(stock, rows)
        self.tap = tap
        self.register_buffer("index", index, persistent=False)

    def forward(
        self, positions: torch.Tensor, query: torch.Tensor, key: torch.Tensor
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Rotate query and key [tokens, heads × width]; `positions` only tells how many tokens there are."""
        query, key = self.rotary(self.index[: positions.shape[0]], query, key)
        if self.tap is not None:
            self.tap(query, key)
        return query, key
