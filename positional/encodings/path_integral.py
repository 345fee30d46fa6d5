"""Path-integral GRAPE: a bias summed along the way from key to query, each step weighed by the query."""

import math
from dataclasses import dataclass

import torch

from positional.encodings.biased import biased_score
from positional.encodings.contract import Contract, EncodingError
from positional.phases import rotate


@dataclass(frozen=True, slots=True, eq=False)
class PathIntegral:
    """One head's bias b(t, j) = Σ_{ℓ=j+1}^{t} ψ(t, ℓ), added after q·k/√width (GRAPE, section 5).

    ψ(t, ℓ) = α · log σ(p_t·(R_ℓ p_ℓ)/n) ≤ 0. `probes` p, float [tokens, n], are projected from the tokens and
    have a root mean square of 1; R_ℓ turns each pair of neighbouring features by ℓ radians. `strength` α > 0.
    Positions are token indices. Raises EncodingError.

    R_ℓ turns the key's probe alone, so the bias is not of the displacement alone. The authors' code lets p_t
    be as projected, pairs features by halves and turns by −ℓ.
    """

    probes: torch.Tensor
    strength: float

    def __post_init__(self) -> None:
        if self.probes.dim() != 2 or self.probes.shape[1] < 2 or self.probes.shape[1] % 2:
            raise EncodingError("probes", tuple(self.probes.shape), "must be of [tokens, even width]")
        if not 0 < self.strength < math.inf:
            raise EncodingError("strength", self.strength, "must be positive and finite")

    @property
    def contract(self) -> Contract:
        """On logits, by a sum that every query makes anew."""
        return Contract(
            acts="logit",
            needs="its position and its probe",
            cached="the key; beside it the probe, turned to its position",
            cache_rule="end_point",
            relative="no",
            extra_dimensions=self.probes.shape[1],
            servable=False,
            why="each query weighs every step by the logarithm of a sigmoid before it sums them: no number "
            "at a key is right for two queries, and no product of a query's numbers and a key's gives it",
        )

    def bias(self, query_position: torch.Tensor, key_position: torch.Tensor) -> torch.Tensor:
        """b(t, j), float64 [...]; −∞ for keys behind the query. Positions int64, broadcast."""
        turned = turn(self.probes, torch.arange(len(self.probes)))
        return path_sums(self.probes, turned, self.strength)[query_position, key_position]

    def score(
        self, query: torch.Tensor, key: torch.Tensor, query_position: torch.Tensor, key_position: torch.Tensor
    ) -> torch.Tensor:
        """q·k + √width · bias [...]: the bias is meant for logits that are scaled already."""
        return biased_score(query, key, self.bias(query_position, key_position))


class PathStream:
    """One head's path sums token by token: what is kept of each token is its turned probe, never changed.

    A step costs O(tokens × width) and the kept probes O(tokens × width) numbers, beside the keys.
    """

    def __init__(self, strength: float, width: int) -> None:
        self._strength = strength
        self._turned = torch.empty(0, width, dtype=torch.float64)

    def append(self, probes: torch.Tensor) -> torch.Tensor:
        """Take the next tokens' `probes` [new, width]; their b(t, j), float64 [new, all tokens so far]."""
        before = len(self._turned)
        places = torch.arange(before, before + len(probes))
        self._turned = torch.cat((self._turned, turn(probes, places)))
        return path_sums(probes, self._turned, self._strength)


def turn(probes: torch.Tensor, positions: torch.Tensor) -> torch.Tensor:
    """R_ℓ p_ℓ, float64 [tokens, width], of `probes` [tokens, width] at int64 `positions` [tokens]."""
    angles = positions.double()[:, None].expand(-1, probes.shape[1] // 2)
    return rotate(probes.double(), torch.cat((angles.cos(), angles.sin()), dim=-1), "interleaved")


def path_sums(probes: torch.Tensor, turned: torch.Tensor, strength: float) -> torch.Tensor:
    """b(t, j) of the last tokens' `probes` [queries, width]: float64 [queries, tokens].

    `turned` [tokens, width]: all tokens' turned probes. Summed from the query backwards, so that near keys,
    whose sums are small, lose nothing. −∞ where the key is behind the query.
    """
    queries, tokens = len(probes), len(turned)
    steps = strength * torch.nn.functional.logsigmoid(probes.double() @ turned.T / probes.shape[1])
    seen = torch.ones(queries, tokens, dtype=torch.bool).tril(tokens - queries)
    steps = steps.where(seen, 0.0)
    onwards = steps.flip(-1).cumsum(-1).flip(-1)
    return (onwards - steps).where(seen, -math.inf)
