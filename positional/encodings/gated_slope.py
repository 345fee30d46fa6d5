"""Slopes that the query, the key or both choose: additive GRAPE with gates."""

import math
from dataclasses import dataclass
from typing import Literal, get_args

import torch

from positional.encodings.augmented import GATE_WIDTH, SLOPE_WIDTH
from positional.encodings.biased import biased_score
from positional.encodings.contract import Contract, EncodingError

Link = Literal["softplus", "identity"]


@dataclass(frozen=True, slots=True, eq=False)
class GatedSlope:
    """One head's bias (j − i)·ω·[g(v·q/√width) + g(u·k/√width)], added after q·k/√width (GRAPE, section 4.1).

    `query_gate` v and `key_gate` u [width]; None leaves that gate out. `link` g: softplus, by which no logit
    grows with the distance, or the identity, which is the paper's linear lift of content. `frequency` ω ≥ 0.
    Raises EncodingError.
    """

    query_gate: torch.Tensor | None
    key_gate: torch.Tensor | None
    link: Link = "softplus"
    frequency: float = 1.0

    def __post_init__(self) -> None:
        if self.query_gate is None and self.key_gate is None:
            raise EncodingError("query_gate, key_gate", None, "one of them must be given")
        if self.link not in get_args(Link):
            raise EncodingError("link", self.link, f"must be one of {', '.join(get_args(Link))}")
        if not 0 <= self.frequency < math.inf:
            raise EncodingError("frequency", self.frequency, "must be finite and not negative")

    @property
    def contract(self) -> Contract:
        """A key, its position in parts for the query's gate, its gate and their product for its own."""
        extra = SLOPE_WIDTH * (self.query_gate is not None) + GATE_WIDTH * (self.key_gate is not None)
        return Contract(
            acts="logit",
            needs="its position and, of the unrotated query or key, its gate",
            cached="the key; its position for queries' gates; its gate, and gate times position, for its own",
            cache_rule="fixed",
            relative="exact",
            extra_dimensions=extra,
            servable=True,
            why="position and gates are numbers of one token each, and the bias a sum of their products",
        )

    def query_slopes(self, query: torch.Tensor) -> torch.Tensor:
        """ω·g(v·q/√width) [...] of `query` [..., width], in its dtype; 0 without a gate."""
        return self._slopes(query, self.query_gate)

    def key_slopes(self, key: torch.Tensor) -> torch.Tensor:
        """ω·g(u·k/√width) [...] of `key` [..., width], in its dtype; 0 without a gate."""
        return self._slopes(key, self.key_gate)

    def score(
        self, query: torch.Tensor, key: torch.Tensor, query_position: torch.Tensor, key_position: torch.Tensor
    ) -> torch.Tensor:
        """q·k + √width · bias [...]: the bias is meant for logits that are scaled already."""
        slopes = self.query_slopes(query) + self.key_slopes(key)
        bias = (key_position - query_position).to(query.dtype) * slopes
        return biased_score(query, key, bias)

    def _slopes(self, content: torch.Tensor, gate: torch.Tensor | None) -> torch.Tensor:
        if gate is None:
            return content.new_zeros(content.shape[:-1])
        read = content @ gate.to(content) / math.sqrt(content.shape[-1])
        linked = torch.nn.functional.softplus(read) if self.link == "softplus" else read
        return self.frequency * linked
