"""Multiplicative GRAPE of many planes: turns in orthogonal planes of a learned basis, RoPE among them."""

from dataclasses import dataclass

import torch

from positional.encodings.contract import Contract, EncodingError
from positional.encodings.quarter_turn import quarter_turn
from positional.profile import Pairing, Profile, ProfileError

# What torch.linalg.matrix_exp leaves in float64; a basis kept in fewer bits goes through `nearest`.
TOLERANCE = 1e-9


@dataclass(frozen=True, slots=True, eq=False)
class Subspaces:
    """G(n) = B R(n) Bᵀ: plane m, of columns 2m and 2m + 1 of B, turns from the first to the second by nθ_m.

    `basis`: B, float64 [width, width] with orthonormal columns, or [heads, width, width] for a basis of each
    head. `angles`: θ, float64 [planes] or [heads, planes] in radians per position, of any sign, 2 × planes at
    most the width; what is beyond them is not turned. The generator is Σ θ_m B U_m J U_mᵀ Bᵀ (GRAPE paper,
    section 3.1). The two may differ in having heads: a spectrum can be tied under bases that are not, and
    the other way round. Raises EncodingError.
    """

    basis: torch.Tensor
    angles: torch.Tensor

    def __post_init__(self) -> None:
        for field, least in (("basis", 2), ("angles", 1)):
            tensor = getattr(self, field)
            if tensor.dtype != torch.float64 or tensor.dim() not in (least, least + 1):
                shape = (tensor.dtype, tuple(tensor.shape))
                raise EncodingError(
                    field, shape, f"must be float64 of {least} dimensions, or {least + 1} by head"
                )
        if self.basis.shape[-1] != self.basis.shape[-2]:
            raise EncodingError("basis", tuple(self.basis.shape), "must be square")
        if self.angles.shape[-1] < 1 or 2 * self.planes > self.width:
            raise EncodingError("angles", self.planes, f"must be of 1 to {self.width // 2} planes")
        if self.basis.dim() == 3 and self.angles.dim() == 2 and len(self.basis) != len(self.angles):
            raise EncodingError(
                "angles", len(self.angles), f"must be of {len(self.basis)} heads, as the basis"
            )
        if not self.angles.isfinite().all():
            raise EncodingError("angles", self.angles, "must be finite")
        basis = self.basis.detach()
        error = float((basis.mT @ basis - torch.eye(self.width, dtype=torch.float64)).abs().max())
        if not error <= TOLERANCE:
            raise EncodingError("basis", error, f"must be orthonormal to {TOLERANCE}; `nearest` makes it so")

    @staticmethod
    def rope(profile: Profile, width: int | None = None) -> "Subspaces":
        """RoPE: the coordinate planes of a profile's pairing, its frequencies as angles.

        `width` of the head, the rotary width by default. Raises EncodingError for a profile with an attention
        factor, which is no rotation.
        """
        if profile.attention_factor != 1:
            raise EncodingError("attention_factor", profile.attention_factor, "must be 1: turns keep norms")
        width = profile.rotary_dim if width is None else width
        basis = torch.eye(width, dtype=torch.float64)[
            :, _layout(profile.planes, width, profile.pairing).argsort()
        ]
        return Subspaces(basis, profile.inverse_frequencies)

    @staticmethod
    def spanned(vectors: torch.Tensor, angles: torch.Tensor, pairing: Pairing = "interleaved") -> "Subspaces":
        """The planes of each a_m and Ja_m, turned by θ_m‖a_m‖² a position; `vectors` float64 [planes, width].

        That the a are orthogonal to each other, which is all that section 3.1 asks, does not make the planes
        so: Ja_m may lie along another a. Raises EncodingError where planes are not orthogonal.
        """
        norms = vectors.norm(dim=-1)
        frame = torch.stack((vectors, quarter_turn(vectors, pairing)), dim=1).flatten(0, 1)
        frame = frame / norms.repeat_interleave(2)[:, None]
        error = float((frame @ frame.T - torch.eye(len(frame), dtype=frame.dtype)).abs().max())
        if not error <= TOLERANCE:
            raise EncodingError("vectors", error, "every a must be orthogonal to the other a and to their Ja")
        return Subspaces(completed(frame.T), angles * norms**2)

    @staticmethod
    def nearest(basis: torch.Tensor, angles: torch.Tensor) -> "Subspaces":
        """With the orthogonal matrix nearest to `basis`, of any floating dtype: its polar factor."""
        left, _, right = torch.linalg.svd(basis.double())
        return Subspaces(left @ right, angles.double())

    @staticmethod
    def of_generator(generator: torch.Tensor) -> "Subspaces":
        """exp(nL) of a skew `generator` L, float64 [width, width], in L's own planes, the fastest first.

        A sum of generators that do not commute thus costs what planes cost: the real Schur form of the
        paper's appendix D. Raises EncodingError for a matrix that is not skew, or is zero.
        """
        size = float(generator.abs().max())
        if not float((generator + generator.T).abs().max()) <= TOLERANCE * size:
            raise EncodingError("generator", size, "must be skew-symmetric")
        # iL is Hermitian; an eigenvector x + iy of λ > 0 spans a plane in which L turns x towards y by λ.
        values, vectors = torch.linalg.eigh(1j * generator)
        # The others are their conjugates, of −λ; what lies at 0 comes out of rounding.
        turning = values > 8 * len(generator) * torch.finfo(torch.float64).eps * values[-1]
        if not turning.any():
            raise EncodingError("generator", size, "turns nothing")
        planes = vectors[:, turning].flip(-1)
        frame = torch.stack((planes.real, planes.imag), dim=-1).flatten(-2)
        return Subspaces(completed(frame), values[turning].flip(-1))

    @property
    def contract(self) -> Contract:
        """A rotated key in the place of the key, as with RoPE."""
        return Contract(
            acts="query_key",
            needs="its position",
            cached="the key in its basis, turned to its position",
            cache_rule="fixed",
            relative="exact",
            extra_dimensions=0,
            servable=True,
            why="RoPE with angles of its own, once the basis is folded into the projections of query and key",
        )

    @property
    def width(self) -> int:
        """Width of a head."""
        return self.basis.shape[-1]

    @property
    def planes(self) -> int:
        """Number of turned planes."""
        return self.angles.shape[-1]

    def rotate(self, vectors: torch.Tensor, positions: torch.Tensor) -> torch.Tensor:
        """G(n)x in the dtype of `vectors` [..., width] or [..., heads, width]; `positions` broadcast.

        x + B(R(n) − I)Bᵀx over the turned planes: O(planes × width). Folded into what makes the vectors, the
        basis costs nothing (`fold`), and what is left is RoPE.
        """
        frame = self.basis[..., : 2 * self.planes].to(vectors.dtype)
        halves = torch.remainder(positions.double()[..., None] * self.angles, 2 * torch.pi) / 2
        sine, versine = (t.to(vectors.dtype) for t in ((2 * halves).sin(), 2 * halves.sin() ** 2))
        inside = (vectors[..., None, :] @ frame)[..., 0, :]
        first, second = inside[..., 0::2], inside[..., 1::2]
        change = torch.stack((-versine * first - sine * second, sine * first - versine * second), dim=-1)
        return vectors + (change.flatten(-2)[..., None, :] @ frame.mT)[..., 0, :]

    def score(
        self, query: torch.Tensor, key: torch.Tensor, query_position: torch.Tensor, key_position: torch.Tensor
    ) -> torch.Tensor:
        """(G(i)q)·(G(j)k) = q·G(j − i)k (section 3.1)."""
        return (self.rotate(query, query_position) * self.rotate(key, key_position)).sum(-1)

    def into_basis(self, vectors: torch.Tensor, pairing: Pairing) -> torch.Tensor:
        """Bᵀx, plane m standing where `pairing` has it: [..., width], or [..., heads, width], in their dtype.

        RoPE of `profile` then does the turning, and scores are those of `score`. This is O(width²) per token
        and head: for layers that normalise queries and keys by unequal weights, through which nothing folds.
        """
        return (vectors[..., None, :] @ self._ordered(pairing).to(vectors.dtype))[..., 0, :]

    def fold(self, projection: torch.Tensor, pairing: Pairing) -> torch.Tensor:
        """The weight [heads × width, inputs] or bias [heads × width] that gives what `into_basis` would.

        Query heads share the basis of their key head in groups of neighbours. In float64, then in the dtype
        of `projection`. It commutes with a norm of each head whose weights are all alike, and with no other.
        Raises EncodingError.
        """
        heads, rest = divmod(projection.shape[0], self.width)
        ordered = self._ordered(pairing)
        if rest or heads < 1 or (ordered.dim() == 3 and heads % len(ordered)):
            raise EncodingError(
                "projection", tuple(projection.shape), f"must have heads of {self.width} rows"
            )
        if ordered.dim() == 3:
            ordered = ordered.repeat_interleave(heads // len(ordered), dim=0)
        rows = projection.double().reshape(heads, self.width, -1)
        return (ordered.mT @ rows).to(projection.dtype).reshape(projection.shape)

    def profile(self, pairing: Pairing) -> Profile:
        """The rule by which folded queries and keys are turned; ProfileError unless tied and positive."""
        if self.angles.dim() != 1:
            raise ProfileError("frequencies", tuple(self.angles.shape), "must be the same for all heads")
        # No base made these angles.
        return Profile(0.0, 2 * self.planes, pairing, "grape", frequencies=tuple(self.angles.tolist()))

    def settled(self) -> "Subspaces":
        """The same turns with positive angles, largest first: as `profile` wants them; tied angles only.

        A plane that turns backwards has its columns swapped, one that does not turn goes to the rest.
        """
        if self.angles.dim() != 1:
            raise EncodingError("angles", tuple(self.angles.shape), "must be the same for all heads")
        order = [int(plane) for plane in self.angles.abs().argsort(descending=True, stable=True)]
        turning = [plane for plane in order if self.angles[plane] != 0]
        still = [plane for plane in order if self.angles[plane] == 0]
        columns: list[int] = []
        for plane in turning + still:
            pair = (2 * plane, 2 * plane + 1)
            columns += pair if self.angles[plane] >= 0 else pair[::-1]
        columns += range(2 * self.planes, self.width)
        return Subspaces(self.basis[..., columns], self.angles[turning].abs())

    def _ordered(self, pairing: Pairing) -> torch.Tensor:
        return self.basis[..., _layout(self.planes, self.width, pairing)]


def _layout(planes: int, width: int, pairing: Pairing) -> torch.Tensor:
    """Which of interleaved columns stands at each dimension."""
    columns = torch.arange(width)
    if pairing == "half":
        columns[: 2 * planes] = torch.cat((columns[0 : 2 * planes : 2], columns[1 : 2 * planes : 2]))
    return columns


def completed(frame: torch.Tensor) -> torch.Tensor:
    """An orthonormal basis [..., width, width] that begins with orthonormal `frame` [..., width, some]."""
    basis, triangle = torch.linalg.qr(frame, mode="complete")
    signs = triangle.diagonal(dim1=-2, dim2=-1).sign()
    return torch.cat(
        (basis[..., : frame.shape[-1]] * signs[..., None, :], basis[..., frame.shape[-1] :]), dim=-1
    )
