"""No encoding of positions: what the others are compared with."""

from dataclasses import dataclass

import torch

from positional.encodings.contract import Contract
from positional.encodings.shapes import placed


@dataclass(frozen=True, slots=True)
class Nope:
    """Queries and keys as they are: order is told by the causal mask alone (Kazemnejad et al. 2023)."""

    @property
    def contract(self) -> Contract:
        """On queries and keys, by leaving them alone."""
        return Contract(
            acts="query_key",
            needs="nothing",
            cached="the key",
            cache_rule="fixed",
            relative="exact",
            extra_dimensions=0,
            servable=True,
            why="a layer without rotation",
        )

    def score(
        self, query: torch.Tensor, key: torch.Tensor, query_position: torch.Tensor, key_position: torch.Tensor
    ) -> torch.Tensor:
        """q·k [...], whatever the positions."""
        return (placed(query, query_position)[0] * placed(key, key_position)[0]).sum(-1)
