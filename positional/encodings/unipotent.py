"""One-parameter groups I + sA of nilpotent generators: how acting on vectors adds to a logit."""

from collections.abc import Sequence
from dataclasses import dataclass

import torch

from positional.encodings.contract import EncodingError

TOLERANCE = 1e-12
"""How far from 0, against the sizes of the vectors, a product may be that rounding alone keeps from it."""


@dataclass(frozen=True, slots=True, eq=False)
class Nilpotent:
    """A generator A = left · rightᵀ with A² = 0, so that H(s) = exp(sA) = I + sA (GRAPE, section 4.1).

    All of H's eigenvalues are 1, and so is its determinant: H adds, and neither turns nor decays. `left` and
    `right`: float [width, rank]. Nothing of [width, width] is formed. Raises EncodingError unless A² = 0.
    """

    left: torch.Tensor
    right: torch.Tensor

    def __post_init__(self) -> None:
        if self.left.dim() != 2 or self.left.shape != self.right.shape:
            shapes = tuple(self.left.shape), tuple(self.right.shape)
            raise EncodingError("left, right", shapes, "must both be of [width, rank]")
        sizes = self.right.norm(dim=0)[:, None] * self.left.norm(dim=0)
        if not ((self.right.T @ self.left).abs() <= TOLERANCE * sizes).all():
            raise EncodingError("left, right", (self.right.T @ self.left).tolist(), "rightᵀ · left must be 0")

    @property
    def width(self) -> int:
        """The width of the lifted vectors that it acts on."""
        return self.left.shape[0]

    def act(self, vectors: torch.Tensor, amount: torch.Tensor) -> torch.Tensor:
        """H(s) of each of `vectors` [..., width] by its `amount` s [...]: how a query is lifted."""
        return vectors + amount[..., None] * ((vectors @ self.right) @ self.left.T)

    def act_inversely(self, vectors: torch.Tensor, amount: torch.Tensor) -> torch.Tensor:
        """H(s)⁻ᵀ of each of `vectors` [..., width]: how a key is lifted.

        H is not orthogonal. Only against the inverse transpose do two positions leave their difference:
        H(s)ᵀ · H(t)⁻ᵀ = H(s − t)ᵀ.
        """
        return vectors - amount[..., None] * ((vectors @ self.left) @ self.right.T)


def dictionary(generators: Sequence[Nilpotent], weights: Sequence[float]) -> Nilpotent:
    """Σ_r θ_r A_r, of generators every two of which multiply to 0 (GRAPE, appendix J.3).

    Such generators commute and their sum is nilpotent again, so that one amount moves them all and their
    biases add. Commuting alone is not enough, nor are two generators that are nilpotent each: by others the
    bias is no longer linear. Raises EncodingError for them.
    """
    left = torch.cat([weight * each.left for each, weight in zip(generators, weights, strict=True)], dim=1)
    return Nilpotent(left, torch.cat([each.right for each in generators], dim=1))


def pair(width: int, reads: int, writes: int) -> Nilpotent:
    """E, which adds coordinate `reads` to coordinate `writes` in float64 vectors of `width`.

    With a query that holds 1 in `reads` and a key that holds 1 in `writes`, H(s) adds s to their product and
    content has no part in it (GRAPE, section 4.2). Raises EncodingError where the two are one.
    """
    return Nilpotent(_unit(width, writes), _unit(width, reads))


def key_gate(direction: torch.Tensor, width: int, reads: int) -> Nilpotent:
    """u · eᵀ, which adds u times coordinate `reads`: the bias becomes s · (u · key) (GRAPE, eq. 4.1).

    `direction` u [content width], in the first of `width` coordinates. Raises EncodingError.
    """
    return Nilpotent(_padded(direction, width), _unit(width, reads).to(direction))


def query_gate(direction: torch.Tensor, width: int, writes: int) -> Nilpotent:
    """e · vᵀ, which adds v · query to coordinate `writes`: the bias becomes s · (v · query).

    `direction` v [content width], in the first of `width` coordinates. Raises EncodingError.
    """
    return Nilpotent(_unit(width, writes).to(direction), _padded(direction, width))


def _unit(width: int, place: int) -> torch.Tensor:
    return torch.eye(width, dtype=torch.float64)[:, place : place + 1]


def _padded(direction: torch.Tensor, width: int) -> torch.Tensor:
    return torch.cat((direction, direction.new_zeros(width - len(direction))))[:, None]
