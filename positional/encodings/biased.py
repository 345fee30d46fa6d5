"""Scores of encodings that add to logits."""

import math

import torch


def biased_score(query: torch.Tensor, key: torch.Tensor, bias: torch.Tensor) -> torch.Tensor:
    """q·k + √width · bias [...] of `query` and `key` [..., width], in the query's dtype.

    The bias is meant for logits that are scaled already, and a contract's score is not.
    """
    return (query * key).sum(-1) + (math.sqrt(query.shape[-1]) * bias).to(query.dtype)
