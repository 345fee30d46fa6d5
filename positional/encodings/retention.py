"""Retention: turns and a decay, which a state of fixed size can hold."""

from dataclasses import dataclass
from math import log

import torch

from positional.encodings.contract import Contract, EncodingError
from positional.encodings.generator import Generator
from positional.profile import Profile


@dataclass(frozen=True, slots=True)
class Retention:
    """Scores q·γᵃR(−a)k of a key's age a ≥ 0, without softmax (RetNet: Sun et al. 2023, eq. 3 to 6).

    `profile`: how fast pairs turn, neighbours paired; `gamma`: what a token keeps of the state, above 0 and
    at most 1. Raises EncodingError.
    """

    profile: Profile
    gamma: float

    def __post_init__(self) -> None:
        if not 0 < self.gamma <= 1:
            raise EncodingError("gamma", self.gamma, "must be above 0 and at most 1")
        Generator.rotations(self.profile)  # its check of the pairing

    @staticmethod
    def of_head(head: int, profile: Profile) -> "Retention":
        """The paper's γ = 1 − 2^(−5 − head) of a head counted from 0 (RetNet, section 2.2)."""
        return Retention(profile, 1 - 2.0 ** (-5 - head))

    @property
    def contract(self) -> Contract:
        """On a state: what it keeps of a token cannot be told from the others'."""
        return Contract(
            acts="state",
            needs="only that it comes next",
            cached="nothing of a token: a head's state is a sum over all of them",
            cache_rule="fixed",
            relative="exact",
            extra_dimensions=0,
            servable=False,
            why="a state is no paged cache of keys: blocks of tokens cannot be shared or dropped",
        )

    @property
    def generator(self) -> Generator:
        """T(1), by which the state moves as a token comes."""
        return Generator.rotations(self.profile, decay=-log(self.gamma))

    def score(
        self, query: torch.Tensor, key: torch.Tensor, query_position: torch.Tensor, key_position: torch.Tensor
    ) -> torch.Tensor:
        """q·T(i − j)k [...] in float64, and 0 where the key is behind the query."""
        scores = self.generator.score(query, key, query_position, key_position)
        return scores.masked_fill(query_position < key_position, 0.0)

    def parallel(self, query: torch.Tensor, key: torch.Tensor, value: torch.Tensor) -> torch.Tensor:
        """Every token's output at once: float64 [tokens, value width] of [tokens, width] and of values."""
        places = torch.arange(len(query))
        scores = self.score(query[:, None], key[None, :], places[:, None], places[None, :])
        return scores @ value.double()

    def recurrent(
        self, query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, state: torch.Tensor | None = None
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """The same, token by token, from a state on: outputs, and the state after them [width, value width].

        S ← T(1)S + k vᵀ, and q·S is what a query reads.
        """
        generator, one = self.generator, torch.ones((), dtype=torch.float64)
        if state is None:
            state = value.new_zeros(key.shape[-1], value.shape[-1], dtype=torch.float64)
        outputs = []
        for q, k, v in zip(query.double(), key.double(), value.double(), strict=True):
            state = generator.act(state.T, one).T + torch.outer(k, v)
            outputs.append(q @ state)
        return torch.stack(outputs), state
