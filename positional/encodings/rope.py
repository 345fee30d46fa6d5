"""Rotary positions under the contract: every rule of `positional.profile` and `positional.rule`."""

import math
from dataclasses import dataclass

import torch

from positional.encodings.contract import CacheRule, Contract, EncodingError
from positional.encodings.shapes import placed
from positional.phases import rotate, rotation_rows
from positional.profile import Profile

_BY_LENGTH = ("dynamic", "longrope")


@dataclass(frozen=True, slots=True)
class Rope:
    """Pairs of features turned by position × frequency (Su et al. 2021, eq. 34).

    `profile` says which pairs and how fast: as they were trained, interpolated (Chen et al. 2023), by another
    base, by NTK, YaRN (Peng et al. 2023), llama3 or longrope (Ding et al. 2024). `width`: numbers of a head,
    of which the profile's `rotary_dim` are turned: the first, or, where `decoupled`, the last, as in MLA
    (DeepSeek-V2 2024, section 2.1.3), whose turned part has one key for all heads. Raises EncodingError.
    """

    profile: Profile
    width: int
    decoupled: bool = False

    def __post_init__(self) -> None:
        if self.width < self.profile.rotary_dim:
            raise EncodingError("width", self.width, f"must hold {self.profile.rotary_dim} turned features")

    @property
    def contract(self) -> Contract:
        """On queries and keys; some rules' frequencies hang on the sequence's length.

        A decoupled key is cached beside the content's, which are a latent (`CacheShape.value_width` of 0).
        """
        by_length = self.profile.rope_type in _BY_LENGTH
        rule: CacheRule = "grows" if by_length else "fixed"
        return Contract(
            acts="query_key",
            needs="its position" + (" and the length that the sequence may reach" if by_length else ""),
            cached="the latent, and one turned key for all heads" if self.decoupled else "the turned key",
            cache_rule=rule,
            relative="exact",
            extra_dimensions=self.profile.rotary_dim if self.decoupled else 0,
            servable=True,
            why="the length is settled when a request comes" if by_length else "a key is turned once",
        )

    def rotate(self, vectors: torch.Tensor, positions: torch.Tensor) -> torch.Tensor:
        """`vectors` [..., width] turned by their positions [...], in their dtype; shapes broadcast."""
        vectors, positions = placed(vectors, positions)
        flat = vectors.reshape(-1, self.width)
        rows = rotation_rows(positions.reshape(-1, 1), self.profile, vectors.dtype)
        still = self.width - self.profile.rotary_dim if self.decoupled else 0
        turned = rotate(flat[:, still:], rows, self.profile.pairing)
        return torch.cat((flat[:, :still], turned), dim=-1).reshape(vectors.shape)

    def score(
        self, query: torch.Tensor, key: torch.Tensor, query_position: torch.Tensor, key_position: torch.Tensor
    ) -> torch.Tensor:
        """R(i)q · R(j)k [...] (Su et al. 2021, eq. 16)."""
        return (self.rotate(query, query_position) * self.rotate(key, key_position)).sum(-1)


def ntk_base(base: float, factor: float, rotary_dim: int) -> float:
    """The base whose slowest plane is `factor` times as slow: NTK-aware scaling by a fixed factor.

    base × factor^(d/(d−2)), as in Peng et al. 2023, eq. 16; dynamic NTK computes it anew for each length.
    Raises EncodingError for a single plane, which no base changes.
    """
    if rotary_dim <= 2:
        raise EncodingError("rotary_dim", rotary_dim, "must be above 2: no base changes the first plane")
    return base * math.pow(factor, rotary_dim / (rotary_dim - 2))
