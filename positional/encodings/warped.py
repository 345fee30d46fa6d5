"""Relative warps under the contract: for comparison, never served."""

from dataclasses import dataclass

import torch

from positional.encodings.contract import Contract, Relative
from positional.encodings.rope import Rope
from positional.profile import Profile
from positional.warps import Scaled, SelfExtend, Warp, pair_displacement


@dataclass(frozen=True, slots=True)
class Warped:
    """RoPE by another displacement than i − j, which `positional.warps` gives for each pair.

    A displacement keeps its sign: a key behind the query stands as far as the query would behind the key.
    """

    warp: Warp
    profile: Profile
    width: int

    @property
    def contract(self) -> Contract:
        """On queries and keys, by what only a pair, or only the query's head, can tell."""
        relative: Relative = "no" if isinstance(self.warp, SelfExtend) else "exact"
        if isinstance(self.warp, Scaled):
            reader = "the query's head, while heads share keys"
        else:
            reader = "how far the query is"
        return Contract(
            acts="query_key",
            needs="the distance to every query",
            cached="the key without a turn",
            cache_rule="end_point",
            relative=relative,
            extra_dimensions=0,
            servable=False,
            why=f"for comparison alone: a key's turn hangs on {reader}",
        )

    def displacement(self, queries: torch.Tensor, keys: torch.Tensor) -> torch.Tensor:
        """What pairs are turned by, float64 [...]: of token indices int64 [...]; below 0 for keys ahead."""
        behind = pair_displacement(self.warp, torch.maximum(queries, keys), torch.minimum(queries, keys))
        return torch.where(queries >= keys, behind, -behind)

    def score(
        self, query: torch.Tensor, key: torch.Tensor, query_position: torch.Tensor, key_position: torch.Tensor
    ) -> torch.Tensor:
        """R(displacement)q · R(0)k [...], of token indices int64."""
        moved = self.displacement(query_position, key_position)
        return Rope(self.profile, self.width).score(query, key, moved, torch.zeros_like(moved))
