"""Products of turns that do not commute: what they lose, and the sum of generators that keeps it."""

from dataclasses import dataclass

import torch

from positional.encodings.contract import Contract, EncodingError
from positional.encodings.rank_two import RankTwo
from positional.encodings.subspaces import TOLERANCE, Subspaces


@dataclass(frozen=True, slots=True)
class OrderedProduct:
    """G(n) = G_1(n)G_2(n)…G_r(n), the last applied first. A reference only.

    `factors`: turns of one head, all of one width. Where two of them do not commute, G(s)G(t) is not
    G(s + t), and scores depend on more than the displacement: the exact relative law is that of one
    generator (GRAPE paper, section 2.2). Raises EncodingError.
    """

    factors: tuple[RankTwo, ...]

    def __post_init__(self) -> None:
        if not self.factors:
            raise EncodingError("factors", self.factors, "must be at least one")
        shapes = {tuple(factor.a.shape) for factor in self.factors}
        if len(shapes) > 1 or any(len(shape) != 1 for shape in shapes):
            raise EncodingError("factors", sorted(shapes), "must be of one width, without heads")

    @property
    def contract(self) -> Contract:
        """A key keeps its turn, but what a query makes of it depends on where both stand."""
        return Contract(
            acts="query_key",
            needs="its position",
            cached="the key, turned to its position by every factor",
            cache_rule="fixed",
            relative="exact" if self.commute else "no",
            extra_dimensions=0,
            servable=False,
            why="a reference: `summed` has the same planes, is exactly relative, and serves as RoPE does",
        )

    @property
    def generators(self) -> torch.Tensor:
        """Each ωL as a matrix, float64 [factors, width, width]."""
        pairs = [factor.omega * torch.outer(factor.a, factor.b) for factor in self.factors]
        return torch.stack([pair - pair.T for pair in pairs])

    @property
    def commute(self) -> bool:
        """Whether their order makes no difference: any two planes are orthogonal, or the same."""
        left, right = self.generators[:, None], self.generators[None]
        sizes = torch.linalg.matrix_norm(self.generators)
        errors = torch.linalg.matrix_norm(left @ right - right @ left)
        return bool((errors <= TOLERANCE * sizes[:, None] * sizes[None]).all())

    def rotate(self, vectors: torch.Tensor, positions: torch.Tensor) -> torch.Tensor:
        """G(n)x in the dtype of `vectors` [..., width], at `positions` [...]: O(factors × width)."""
        for factor in reversed(self.factors):
            vectors = factor.rotate(vectors, positions)
        return vectors

    def score(
        self, query: torch.Tensor, key: torch.Tensor, query_position: torch.Tensor, key_position: torch.Tensor
    ) -> torch.Tensor:
        """(G(i)q)·(G(j)k)."""
        return (self.rotate(query, query_position) * self.rotate(key, key_position)).sum(-1)

    def summed(self) -> Subspaces:
        """exp(n Σ ωL): one generator, so exactly relative whether or not its terms commute (appendix D)."""
        return Subspaces.of_generator(self.generators.sum(0))
