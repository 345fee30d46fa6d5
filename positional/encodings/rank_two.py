"""Multiplicative GRAPE of one plane: a skew generator of rank two and its closed exponential."""

import math
from dataclasses import dataclass

import torch

from positional.encodings.contract import Contract, EncodingError
from positional.encodings.quarter_turn import quarter_turn
from positional.encodings.subspaces import Subspaces, completed
from positional.profile import Pairing

# Below this squared angle the series, cut after its fourth term, are exact in float64.
SMALL = 1e-3


@dataclass(frozen=True, slots=True, eq=False)
class RankTwo:
    """G(n) = exp(nωL) with L = abᵀ − baᵀ: a turn in the plane of a and b, everything else untouched.

    `a`, `b`: float64 [width], or [heads, width] for a plane of each head. `omega`: ω, of either sign.
    A position turns b towards a by ω·s radians, where s² = αβ − γ² with α = a·a, β = b·b, γ = a·b (GRAPE
    paper, section 2.1). The paper takes [a b]J[a b]ᵀ for the same L, also where it finds RoPE; that one is
    −L. Here L is as the paper applies it in section 2.3. Raises EncodingError.
    """

    a: torch.Tensor
    b: torch.Tensor
    omega: float = 1.0

    def __post_init__(self) -> None:
        for field in ("a", "b"):
            vector = getattr(self, field)
            if vector.dtype != torch.float64 or vector.dim() not in (1, 2):
                raise EncodingError(
                    field, (vector.dtype, tuple(vector.shape)), "must be float64, 1 or 2-dimensional"
                )
            if not vector.isfinite().all():
                raise EncodingError(field, vector, "must be finite")
        if not math.isfinite(self.omega):
            raise EncodingError("omega", self.omega, "must be finite")
        if self.a.shape != self.b.shape:
            raise EncodingError("b", tuple(self.b.shape), f"must have the shape of a, {tuple(self.a.shape)}")

    @staticmethod
    def canonical(a: torch.Tensor, omega: float = 1.0, pairing: Pairing = "interleaved") -> "RankTwo":
        """The case b = Ja, where s = ‖a‖² (section 2.4): `a` float64 [width] or [heads, width].

        It turns Ja towards a. RoPE turns a towards Ja, so its frequency θ is ω = −θ here.
        """
        return RankTwo(a, quarter_turn(a, pairing), omega)

    @property
    def contract(self) -> Contract:
        """A rotated key in the place of the key, as with RoPE."""
        return Contract(
            acts="query_key",
            needs="its position",
            cached="the key, turned to its position",
            cache_rule="fixed",
            relative="exact",
            extra_dimensions=0,
            servable=True,
            why="orthogonal turns by the position alone: G(i)ᵀG(j) = G(j − i)",
        )

    @property
    def alpha(self) -> torch.Tensor:
        """α = a·a, float64 [] or [heads]."""
        return (self.a * self.a).sum(-1)

    @property
    def beta(self) -> torch.Tensor:
        """β = b·b, float64 [] or [heads]."""
        return (self.b * self.b).sum(-1)

    @property
    def gamma(self) -> torch.Tensor:
        """γ = a·b, float64 [] or [heads]."""
        return (self.a * self.b).sum(-1)

    @property
    def s(self) -> torch.Tensor:
        """√(αβ − γ²), the area between a and b, float64 [] or [heads]; 0 where they are parallel."""
        rest = self._rejection()
        return ((rest * rest).sum(-1) * self.beta).sqrt()

    def rotate(self, vectors: torch.Tensor, positions: torch.Tensor) -> torch.Tensor:
        """G(n)x in the dtype of `vectors` [..., width] or [..., heads, width]; `positions` broadcast.

        I + (sin θ / s)L + ((1 − cos θ)/s²)L² with θ = nωs (section 2.3), as two inner products and two
        multiples of vectors: O(width), no matrix. Finite, and with finite derivatives, where s is 0.
        """
        # L is the same for a and for a's part across b, which makes γ zero: with γ as it stands, the terms
        # of L² cancel to nothing where a and b are nearly parallel.
        rest, beta = self._rejection(), self.beta
        alpha = (rest * rest).sum(-1)
        sine, versine = _coefficients(self.omega * positions.double(), alpha * beta)
        along_rest, along_b = (versine * beta).to(vectors.dtype), (versine * alpha).to(vectors.dtype)
        sine = sine.to(vectors.dtype)
        first, second = rest.to(vectors.dtype), self.b.to(vectors.dtype)
        u, v = (first * vectors).sum(-1), (second * vectors).sum(-1)
        to_first, to_second = sine * v - along_rest * u, -sine * u - along_b * v
        return vectors + to_first[..., None] * first + to_second[..., None] * second

    def score(
        self, query: torch.Tensor, key: torch.Tensor, query_position: torch.Tensor, key_position: torch.Tensor
    ) -> torch.Tensor:
        """(G(i)q)·(G(j)k) = q·G(j − i)k (section 2.5)."""
        return (self.rotate(query, query_position) * self.rotate(key, key_position)).sum(-1)

    def subspaces(self) -> Subspaces:
        """The same turn as one plane of a basis; EncodingError where a and b are parallel."""
        rest = self._rejection()
        lengths = rest.norm(dim=-1, keepdim=True), self.b.norm(dim=-1, keepdim=True)
        if not all((length > 0).all() for length in lengths):
            raise EncodingError("s", self.s, "must not be 0")
        frame = torch.stack((self.b / lengths[1], rest / lengths[0]), dim=-1)
        return Subspaces(completed(frame), self.omega * lengths[0] * lengths[1])

    def _rejection(self) -> torch.Tensor:
        """The part of a that is orthogonal to b; taken twice, since once leaves what rounding put back."""
        rest, beta = self.a, self.beta
        divisor = torch.where(beta > 0, beta, 1.0)
        for _ in range(2):
            rest = rest - ((rest * self.b).sum(-1) / divisor)[..., None] * self.b
        return rest


def _coefficients(eta: torch.Tensor, square: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """sin(ηs)/s and (1 − cos ηs)/s² of s² = `square`: functions of s², smooth at 0, where the root is not."""
    angle = eta * eta * square
    small = angle < SMALL
    root = torch.where(small, 1.0, angle).sqrt()
    sine = torch.where(small, 1 - angle / 6 * (1 - angle / 20 * (1 - angle / 42)), root.sin() / root)
    half = (root / 2).sin() / root
    versine = torch.where(small, (1 - angle / 12 * (1 - angle / 30 * (1 - angle / 56))) / 2, 2 * half * half)
    return eta * sine, eta * eta * versine
