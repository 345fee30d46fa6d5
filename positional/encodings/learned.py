"""Learned absolute positions, added to embeddings."""

from dataclasses import dataclass

import torch

from positional.encodings.contract import Contract, EncodingError


@dataclass(frozen=True, slots=True, eq=False)
class Learned:
    """A row of a table for every position (Gehring et al. 2017; Vaswani et al. 2017, table 3, row E).

    `table` [positions, width], floating point: no position beyond it has one. Raises EncodingError.
    """

    table: torch.Tensor

    def __post_init__(self) -> None:
        if self.table.dim() != 2 or not self.table.is_floating_point():
            raise EncodingError("table", tuple(self.table.shape), "must be floating point [positions, width]")

    @property
    def contract(self) -> Contract:
        """On embeddings: a cached key is projected from a sum that has the position in it."""
        return Contract.of_embedding(
            f"the cache never sees positions; sequences end after {len(self.table)} tokens"
        )

    def embed(self, embeddings: torch.Tensor, positions: torch.Tensor) -> torch.Tensor:
        """`embeddings` [..., width] with their positions' rows added, in their dtype.

        `positions` int64 [...]. Raises EncodingError for a position without a row.
        """
        beyond = positions[(positions < 0) | (positions >= len(self.table))]
        if len(beyond):
            raise EncodingError("positions", int(beyond[0]), f"must be from 0 to {len(self.table) - 1}")
        return embeddings + self.table[positions].to(embeddings.dtype)

    def score(
        self, query: torch.Tensor, key: torch.Tensor, query_position: torch.Tensor, key_position: torch.Tensor
    ) -> torch.Tensor:
        """(q + p_i)·(k + p_j) [...], the projections being the identity."""
        return (self.embed(query, query_position) * self.embed(key, key_position)).sum(-1)
