"""Sinusoidal positions, added to embeddings."""

from dataclasses import dataclass
from typing import Literal, get_args

import torch

from positional.encodings.contract import Contract, EncodingError
from positional.phases import rotation_rows
from positional.profile import Profile

Layout = Literal["interleaved", "half"]
First = Literal["sine", "cosine"]


@dataclass(frozen=True, slots=True)
class Sinusoidal:
    """Sines and cosines of position × base^(−2m/width) (Vaswani et al. 2017, section 3.5).

    `layout`: where pair m stands: in features 2m and 2m + 1, as the paper writes it, or in m and
    m + width/2, as many implementations do. `first`: which of the two comes first. Raises EncodingError,
    and ProfileError for an odd width or a base of 1 or less.
    """

    width: int
    base: float = 10_000.0
    layout: Layout = "interleaved"
    first: First = "sine"

    def __post_init__(self) -> None:
        if self.layout not in get_args(Layout):
            raise EncodingError("layout", self.layout, f"must be one of {', '.join(get_args(Layout))}")
        if self.first not in get_args(First):
            raise EncodingError("first", self.first, f"must be one of {', '.join(get_args(First))}")
        Profile.rope(self.base, self.width)  # its checks of width and base

    @property
    def contract(self) -> Contract:
        """On embeddings: a cached key is projected from a sum that has the position in it."""
        return Contract.of_embedding("the cache never sees positions")

    def rows(self, positions: torch.Tensor) -> torch.Tensor:
        """What is added at `positions` [...]: float64 [..., width]; angles are reduced in float64."""
        profile = Profile.rope(self.base, self.width)
        each = positions.reshape(-1, 1)
        cosines, sines = rotation_rows(each, profile, torch.float64).chunk(2, dim=-1)
        pair = (sines, cosines) if self.first == "sine" else (cosines, sines)
        rows = torch.cat(pair, -1) if self.layout == "half" else torch.stack(pair, -1).flatten(-2)
        return rows.reshape(*positions.shape, self.width)

    def embed(self, embeddings: torch.Tensor, positions: torch.Tensor) -> torch.Tensor:
        """`embeddings` [..., width] with their positions [...] added, in their dtype."""
        return embeddings + self.rows(positions).to(embeddings.dtype)

    def score(
        self, query: torch.Tensor, key: torch.Tensor, query_position: torch.Tensor, key_position: torch.Tensor
    ) -> torch.Tensor:
        """(q + p_i)·(k + p_j) [...], the projections being the identity."""
        return (self.embed(query, query_position) * self.embed(key, key_position)).sum(-1)
