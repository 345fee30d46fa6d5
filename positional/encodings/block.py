"""One block of a generator's spectrum, and how it acts without a matrix."""

from dataclasses import dataclass
from math import factorial, isfinite

import torch

from positional.encodings.contract import EncodingError


@dataclass(frozen=True, slots=True)
class Block:
    """A real Jordan block with the eigenvalues −decay ± i × frequency, per token of age.

    The age a of a key is the query's position less the key's. Over it the block decays by exp(−decay × a)
    and turns by −frequency × a, which is RoPE's turn of a key against its query. `size` places in a chain,
    each of one feature, or two where they turn: place m reads place m + k times (coupling × a)^k / k!, for
    every k. Raises EncodingError.
    """

    decay: float = 0.0
    frequency: float = 0.0
    size: int = 1
    coupling: float = 1.0

    def __post_init__(self) -> None:
        for field in ("decay", "frequency", "coupling"):
            if not isfinite(getattr(self, field)):
                raise EncodingError(field, getattr(self, field), "must be finite")
        if self.size < 1:
            raise EncodingError("size", self.size, "must be at least 1")

    @staticmethod
    def of(eigenvalue: complex, size: int = 1, coupling: float = 1.0) -> "Block":
        """The block of an eigenvalue, and of its conjugate where it is not real."""
        value = complex(eigenvalue)
        return Block(-value.real, value.imag, size, coupling)

    @property
    def link(self) -> int:
        """Features of a place."""
        return 2 if self.frequency else 1

    @property
    def width(self) -> int:
        """Features that the block acts on."""
        return self.link * self.size

    @property
    def degree(self) -> int:
        """The highest power of the age."""
        return self.size - 1 if self.coupling else 0

    def act(self, vectors: torch.Tensor, ages: torch.Tensor, *, transposed: bool = False) -> torch.Tensor:
        """exp(aX)x or its transpose, of `vectors` [..., width] at `ages` [...], both float64.

        Takes width × size steps a vector: a few numbers of the age, and no matrix.
        """
        turned = self._turn(vectors, -ages if transposed else ages) * torch.exp(-self.decay * ages)[..., None]
        chain = turned.reshape(*ages.shape, self.size, self.link)
        moved = chain.clone()
        for step in range(1, self.degree + 1):
            share = ((self.coupling * ages) ** step / factorial(step))[..., None, None]
            if transposed:
                moved[..., step:, :] += share * chain[..., :-step, :]
            else:
                moved[..., :-step, :] += share * chain[..., step:, :]
        return moved.reshape(turned.shape)

    def matrix(self) -> torch.Tensor:
        """X itself, float64 [width, width]."""
        turn = torch.tensor([[0.0, self.frequency], [-self.frequency, 0.0]], dtype=torch.float64)
        place = turn[: self.link, : self.link] - self.decay * torch.eye(self.link, dtype=torch.float64)
        step = self.coupling * torch.ones(self.size - 1, dtype=torch.float64).diag(1)
        return torch.kron(torch.eye(self.size), place) + torch.kron(step, torch.eye(self.link))

    def _turn(self, vectors: torch.Tensor, ages: torch.Tensor) -> torch.Tensor:
        if self.link == 1:
            return vectors
        angles = (-self.frequency * ages)[..., None]
        first, second = vectors[..., 0::2], vectors[..., 1::2]
        cos, sin = angles.cos(), angles.sin()
        return torch.stack((first * cos - second * sin, first * sin + second * cos), dim=-1).flatten(-2)
