"""FoX: every token says how much of what came before it is still heard."""

from dataclasses import dataclass

import torch

from positional.encodings.augmented import PHASE_WIDTH
from positional.encodings.biased import biased_score
from positional.encodings.contract import Contract, EncodingError


def phases(log_gates: torch.Tensor, before: torch.Tensor | float = 0.0) -> torch.Tensor:
    """Φ_j = Σ_{ℓ ≤ j} log f_ℓ of `log_gates` [tokens, ...], float64 [tokens, ...].

    `before` [...]: Φ of the last token before these, so that a sequence may come in chunks.
    """
    return log_gates.double().cumsum(dim=0) + before


@dataclass(frozen=True, slots=True, eq=False)
class Forgetting:
    """One head's bias Σ_{ℓ=j+1}^{i} log f_ℓ, added after q·k/√width (FoX: Lin et al. 2025, section 3).

    `log_gates`: log f_ℓ ≤ 0 of every token, float [tokens]; positions are token indices. A constant gate is
    ALiBi of slope −log f. It is additive GRAPE along a path of factors I − log f_ℓ · E (GRAPE, appendix C).
    Raises EncodingError for a gate above 1, or of 0.
    """

    log_gates: torch.Tensor

    def __post_init__(self) -> None:
        if self.log_gates.dim() != 1:
            raise EncodingError("log_gates", tuple(self.log_gates.shape), "must be of [tokens]")
        if not self.log_gates.isfinite().all():
            raise EncodingError("log_gates", self.log_gates.min().item(), "must be finite")
        if (self.log_gates > 0).any():
            raise EncodingError("log_gates", self.log_gates.max().item(), "must not be above 0")

    @property
    def contract(self) -> Contract:
        """A key, and the sum of the log gates up to it in three parts."""
        return Contract(
            acts="logit",
            needs="its forget gate and the sum of the logarithms of all gates before it",
            cached="the key, and the sum of log gates up to it in parts that bf16 holds",
            cache_rule="fixed",
            relative="phase",
            extra_dimensions=PHASE_WIDTH,
            servable=True,
            why="a difference of sums: the key's is cached, and softmax does not see the query's",
        )

    def bias(self, query_position: torch.Tensor, key_position: torch.Tensor) -> torch.Tensor:
        """Φ_i − Φ_j, float64 [...]; positions int64, broadcast."""
        phase = phases(self.log_gates)
        return phase[query_position] - phase[key_position]

    def score(
        self, query: torch.Tensor, key: torch.Tensor, query_position: torch.Tensor, key_position: torch.Tensor
    ) -> torch.Tensor:
        """q·k + √width · bias [...]: the bias is meant for logits that are scaled already."""
        return biased_score(query, key, self.bias(query_position, key_position))
