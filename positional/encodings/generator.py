"""One-parameter groups: linear maps of the features that add up as displacements do."""

from collections.abc import Sequence
from dataclasses import dataclass
from math import log

import torch

from positional.encodings.block import Block
from positional.encodings.contract import Contract, EncodingError
from positional.encodings.shapes import placed
from positional.profile import Profile

_LARGEST = log(torch.finfo(torch.float32).max)


@dataclass(frozen=True, slots=True, eq=False)
class Generator:
    """T(a) = exp(aX), X being of `blocks` side by side: all that is continuous with T(a)T(b) = T(a + b).

    `basis` float64 [width, width], invertible: X = B diag(blocks) B⁻¹; None for the features themselves,
    where all is O(width). A basis may be folded into the projections. Raises EncodingError.
    """

    blocks: tuple[Block, ...]
    basis: torch.Tensor | None = None

    def __post_init__(self) -> None:
        if not self.blocks:
            raise EncodingError("blocks", self.blocks, "must not be empty")
        if self.basis is not None and self.basis.shape != (self.width, self.width):
            raise EncodingError("basis", tuple(self.basis.shape), f"must be {self.width} by {self.width}")

    @staticmethod
    def from_spectrum(eigenvalues: Sequence[complex], sizes: Sequence[int] | None = None) -> "Generator":
        """The blocks of these eigenvalues, one of each conjugate pair; all of size 1 where none are given."""
        pairs = zip(eigenvalues, sizes or [1] * len(eigenvalues), strict=True)
        return Generator(tuple(Block.of(value, size) for value, size in pairs))

    @staticmethod
    def rotations(profile: Profile, decay: float = 0.0) -> "Generator":
        """A profile's turns of neighbours, as RoPE has them, and a decay of all features alike.

        Raises EncodingError for the other pairing.
        """
        if profile.pairing != "interleaved":
            raise EncodingError("profile", profile.pairing, "must pair neighbours (interleaved)")
        return Generator(tuple(Block(decay, frequency) for frequency in profile.frequencies))

    @property
    def width(self) -> int:
        """Features that the blocks act on."""
        return sum(block.width for block in self.blocks)

    @property
    def contract(self) -> Contract:
        """On queries and keys; one whose maps keep no norm cannot be cached for long."""
        steepest = max(abs(block.decay) for block in self.blocks)
        degree = max(block.degree for block in self.blocks)
        if steepest:
            reach = f"{_LARGEST / steepest:,.0f} tokens"
            why = f"a cached key grows with its position, beyond float32 after {reach}"
        elif degree:
            why = "a cached key grows with its position, and a score is a small difference of large numbers"
        else:
            why = "turns alone: a rotary layer in another basis"
        return Contract(
            acts="query_key",
            needs="its position",
            cached="the key moved to position 0",
            cache_rule="fixed",
            relative="exact",
            extra_dimensions=0,
            servable=not (steepest or degree),
            why=why,
        )

    def act(self, vectors: torch.Tensor, ages: torch.Tensor, *, transposed: bool = False) -> torch.Tensor:
        """T(a)x or T(a)ᵀx of `vectors` [..., width] at `ages` [...], in float64; shapes broadcast."""
        moved, ages = placed(vectors.double(), ages.double())
        if self.basis is None:
            return self._act(moved, ages, transposed)
        if transposed:
            inner = self._act(moved @ self.basis, ages, transposed)
            return _solve(self.basis.T, inner)
        return self._act(_solve(self.basis, moved), ages, transposed) @ self.basis.T

    def query(self, vectors: torch.Tensor, positions: torch.Tensor) -> torch.Tensor:
        """T(i)ᵀq: what meets `key` in the same score as `score`."""
        return self.act(vectors, positions, transposed=True)

    def key(self, vectors: torch.Tensor, positions: torch.Tensor) -> torch.Tensor:
        """T(−j)k: what a cache would hold."""
        return self.act(vectors, -positions)

    def score(
        self, query: torch.Tensor, key: torch.Tensor, query_position: torch.Tensor, key_position: torch.Tensor
    ) -> torch.Tensor:
        """q·T(i − j)k [...], float64."""
        return (query.double() * self.act(key, query_position - key_position)).sum(-1)

    def matrix(self) -> torch.Tensor:
        """X itself, float64 [width, width], for checks of a whole generator alone."""
        blocks = (block.matrix() for block in self.blocks)
        inner: torch.Tensor = torch.block_diag(*blocks)  # type: ignore[no-untyped-call]
        return inner if self.basis is None else self.basis @ inner @ torch.linalg.inv(self.basis)

    def _act(self, vectors: torch.Tensor, ages: torch.Tensor, transposed: bool) -> torch.Tensor:
        parts = torch.split(vectors, [block.width for block in self.blocks], dim=-1)
        pairs = zip(self.blocks, parts, strict=True)
        return torch.cat([block.act(part, ages, transposed=transposed) for block, part in pairs], dim=-1)


def _solve(matrix: torch.Tensor, vectors: torch.Tensor) -> torch.Tensor:
    """M⁻¹x of each of `vectors` [..., width]."""
    flat = vectors.reshape(-1, vectors.shape[-1])
    solved: torch.Tensor = torch.linalg.solve(matrix.T, flat, left=False)
    return solved.reshape(vectors.shape)
