"""Relevance from attention heads: eq. 4 and 5 of the QGPM paper."""

import math

import torch


def head_signal(queries: torch.Tensor, keys: torch.Tensor) -> torch.Tensor:
    """ℓ_h(j) = max over query rows of q·k/√d: float [tokens] (eq. 4).

    `queries` [rows, width] and `keys` [tokens, width] are rotated.
    """
    return (queries @ keys.T).amax(dim=0) / math.sqrt(queries.shape[-1])


def sentence_signal(signal: torch.Tensor, spans: torch.Tensor, silent: torch.Tensor) -> torch.Tensor:
    """ℓ_h(S_i) = max over a sentence's tokens: float [sentences]; −inf where every token is silent.

    `signal` [tokens]; `spans` int64 [sentences, 2], ascending and disjoint; `silent` bool [tokens] (tokens
    that contain a newline, paper, appendix A).
    """
    heard = signal.masked_fill(silent, -math.inf)
    owner = torch.searchsorted(spans[:, 0].contiguous(), torch.arange(len(heard)), right=True) - 1
    inside = (owner >= 0) & (torch.arange(len(heard)) < spans[owner, 1])
    strongest = torch.full((len(spans),), -math.inf, dtype=signal.dtype)
    return strongest.scatter_reduce(0, owner[inside], heard[inside], "amax")


def standardise(signals: torch.Tensor) -> torch.Tensor:
    """z_i: the heads' standardised signals, averaged: float64 [sentences] (eq. 5).

    `signals` [sentences, heads]. The deviation is the population's. A sentence without a signal (−inf)
    counts as the head's weakest; a head whose signal has no spread contributes 0.
    """
    values = signals.double()
    silent = torch.isinf(values)
    weakest = values.masked_fill(silent, math.inf).amin(dim=0)
    weakest = torch.where(torch.isinf(weakest), 0.0, weakest)
    values = torch.where(silent, weakest, values)
    spread = values.std(dim=0, correction=0)
    centred = values - values.mean(dim=0)
    # Not `spread > 0`: the mean of equal numbers may miss them by a rounding.
    differs = values.amax(dim=0) > values.amin(dim=0)
    return torch.where(differs, centred / spread, 0.0).mean(dim=1)


def mean_ranks(z: torch.Tensor) -> torch.Tensor:
    """Ranks from 1, float64 [sentences], the most relevant first; equal ones have their mean."""
    _, of, counts = torch.unique(-z, return_inverse=True, return_counts=True)
    last = counts.cumsum(0).double()
    return (last - (counts.double() - 1) / 2)[of]


def unity(signals: torch.Tensor, z: torch.Tensor) -> float:
    """How far heads agree on the sentence that is first in z [sentences]: the mean of its 1/rank in each.

    `signals` [sentences, heads].
    """
    first = int(z.argmax())
    return sum(float(1 / mean_ranks(head)[first]) for head in signals.T) / signals.shape[1]


def rank(relevance: torch.Tensor) -> torch.Tensor:
    """ρ(i), int64 [sentences]: 0 is the most relevant; ties keep document order."""
    order = torch.argsort(relevance, descending=True, stable=True)
    ranks = torch.empty_like(order)
    ranks[order] = torch.arange(len(order))
    return ranks
