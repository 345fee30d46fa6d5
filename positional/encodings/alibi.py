"""ALiBi: every logit falls by a head's slope times the distance."""

import math
from dataclasses import dataclass

import torch

from positional.encodings.biased import biased_score
from positional.encodings.contract import Contract, EncodingError


def alibi_slopes(heads: int) -> torch.Tensor:
    """Each head's slope, float64 [heads] (ALiBi: Press et al. 2022, section 3, and their code).

    2^(−8h/n) for h = 1 … n where n, the number of heads, is a power of two. Otherwise those of the next
    smaller power p, then every second one of 2p's, the first of them first. Raises EncodingError.
    """
    if heads < 1:
        raise EncodingError("heads", heads, "must be at least 1")
    power = 2 ** (heads.bit_length() - 1)
    first = torch.arange(1, power + 1, dtype=torch.float64) / power
    between = (2 * torch.arange(1, heads - power + 1, dtype=torch.float64) - 1) / (2 * power)
    return torch.exp2(-8 * torch.cat((first, between)))


@dataclass(frozen=True, slots=True)
class Alibi:
    """One head's bias −slope · (i − j), added after q·k/√width (ALiBi: Press et al. 2022, section 3).

    Additive GRAPE with the generator −slope · E (GRAPE, eq. 4.7). Raises EncodingError for a slope that is
    not positive.
    """

    slope: float

    def __post_init__(self) -> None:
        if not 0 < self.slope < math.inf:
            raise EncodingError("slope", self.slope, "must be positive and finite")

    @property
    def contract(self) -> Contract:
        """On logits: the cache holds plain keys, and the bias follows from where they stand."""
        return Contract(
            acts="logit",
            needs="its position",
            cached="the key",
            cache_rule="fixed",
            relative="exact",
            extra_dimensions=0,
            servable=True,
            why="attention kernels take slopes and know each key's position",
        )

    def bias(self, query_position: torch.Tensor, key_position: torch.Tensor) -> torch.Tensor:
        """slope · (j − i), float64 [...]; positions broadcast."""
        return self.slope * (key_position - query_position).double()

    def score(
        self, query: torch.Tensor, key: torch.Tensor, query_position: torch.Tensor, key_position: torch.Tensor
    ) -> torch.Tensor:
        """q·k + √width · bias [...]: the bias is meant for logits that are scaled already."""
        return biased_score(query, key, self.bias(query_position, key_position))
