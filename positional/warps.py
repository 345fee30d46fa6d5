"""STRING, Self-Extend, ReRoPE and Ms-PoE: other relative displacements in RoPE's place, to compare QGPM with.

RoPE turns the score of a query at i and a key at j by i − j. A warp puts another displacement there,
whatever the question is. By the first three it depends on the pair, so that no one position a token gives
it; by Ms-PoE on the query's head, while heads share keys. No cached key fits any of them: nothing here is
served. A warp is of one head.
"""

from dataclasses import dataclass
from typing import Protocol

import torch


class WarpError(ValueError):
    """A warp that cannot be: the field, the value and the reason."""

    def __init__(self, field: str, value: object, reason: str) -> None:
        self.field = field
        self.value = value
        self.reason = reason
        super().__init__(f"{field}: {reason} (got {value!r})")


@dataclass(frozen=True, slots=True, eq=False)
class Piece:
    """Where tokens stand for pairs at least `nearest` tokens apart; their displacement is the difference.

    `queries` float64 [queries], `keys` float64 [keys].
    """

    queries: torch.Tensor
    keys: torch.Tensor
    nearest: int = 0


class Warp(Protocol):
    """A rule for displacements that on each range of distances is a difference of positions."""

    def __hash__(self) -> int:
        """Warps are values: equal ones turn alike."""
        ...

    def pieces(self, queries: torch.Tensor, keys: torch.Tensor) -> tuple[Piece, ...]:
        """The pieces from near to far, the first at 0; a pair takes the last that it is far enough for.

        `queries` and `keys`: token indices, int64.
        """
        ...


def displacement(warp: Warp, queries: torch.Tensor, keys: torch.Tensor) -> torch.Tensor:
    """What RoPE turns each pair by: float64 [queries, keys], of use where the key is not behind the query."""
    return pair_displacement(warp, queries[:, None], keys[None, :])


def pair_displacement(warp: Warp, queries: torch.Tensor, keys: torch.Tensor) -> torch.Tensor:
    """The same for a key of each query, indices int64 [...] whose shapes broadcast: float64 [...]."""
    distance = queries - keys
    result = distance.double()
    for piece in warp.pieces(queries, keys):
        result = torch.where(distance >= piece.nearest, piece.queries - piece.keys, result)
    return result


@dataclass(frozen=True, slots=True)
class Plain:
    """i − j: RoPE as it is (Su et al. 2021, eq. 16)."""

    def pieces(self, queries: torch.Tensor, keys: torch.Tensor) -> tuple[Piece, ...]:
        """One piece."""
        return (Piece(queries.double(), keys.double()),)


@dataclass(frozen=True, slots=True)
class String:
    """i − j below a distance S, and i − j − S + W from S on (STRING: An et al. 2025, eq. 4).

    Long distances are told by positions that training saw often. `shift` S and `window` W in tokens: W keeps
    far tokens from standing where the nearest do. Raises WarpError.
    """

    shift: int
    window: int

    def __post_init__(self) -> None:
        _check_whole("window", self.window, 0)
        if self.shift <= self.window:
            raise WarpError("shift", self.shift, f"must exceed the window of {self.window} tokens")

    @staticmethod
    def at(length: int) -> "String":
        """The paper's S = L/3 and W = 128 (section 4.1) for a prompt of `length` tokens, its L.

        In the paper L is the length of training, which its prompts fill; of a shorter prompt no distance
        would reach that S, and nothing would change. The authors' code also sharpens the attention, by a
        factor that the method's equations do not have; we do not. Raises WarpError for prompts so short that
        S is at most W.
        """
        return String(shift=length // 3, window=128)

    def pieces(self, queries: torch.Tensor, keys: torch.Tensor) -> tuple[Piece, ...]:
        """The band along the diagonal, and the triangle behind it, whose queries stand nearer."""
        near = Piece(queries.double(), keys.double())
        return near, Piece(near.queries - self.shift + self.window, near.keys, nearest=self.shift)


@dataclass(frozen=True, slots=True)
class SelfExtend:
    """i − j below a distance w, and ⌊i/G⌋ − ⌊j/G⌋ + w − ⌊w/G⌋ from w on (Self-Extend: Jin et al. 2024).

    The paper's grouped attention with its shifted queries (section 3 and the pseudocode of its appendix).
    `group` G; `window` w in tokens. Raises WarpError.
    """

    group: int
    window: int

    def __post_init__(self) -> None:
        _check_whole("group", self.group, 1)
        _check_whole("window", self.window, 1)

    @staticmethod
    def at(length: int, native: int) -> "SelfExtend":
        """For a prompt of `length` tokens on a model that sees `native` tokens.

        The neighbours are a quarter of the prompt, at most 1,024 tokens: 1,024 is usual on models of 4,096,
        and a fixed number would leave short prompts as they are. The group is 2, the smallest that changes
        anything, unless the prompt needs a larger one: the paper's reach is (native − w) × G + w tokens.
        Raises WarpError where no group reaches the length.
        """
        window = _neighbours(length)
        return SelfExtend(_group(length, window, native), window)

    def pieces(self, queries: torch.Tensor, keys: torch.Tensor) -> tuple[Piece, ...]:
        """The neighbours, and the groups."""
        shift = self.window - self.window // self.group
        far = Piece((queries // self.group + shift).double(), (keys // self.group).double(), self.window)
        return Piece(queries.double(), keys.double()), far


@dataclass(frozen=True, slots=True)
class Rerope:
    """i − j below a distance w, and w + leak × (i − j − w) from w on (ReRoPE: Su 2023).

    Part 12 of its author's series on upgrades of the Transformer. A `leak` of 0 rectifies, as ReRoPE does:
    what is farther stands at w. Leaky ReRoPE has a leak of 1 / k, as little as lets the prompt end within
    what training saw. `window` w in tokens. Raises WarpError.
    """

    window: int
    leak: float = 0.0

    def __post_init__(self) -> None:
        _check_whole("window", self.window, 1)
        if not 0 <= self.leak <= 1:
            raise WarpError("leak", self.leak, "must be from 0 to 1")

    @staticmethod
    def rectified(length: int) -> "Rerope":
        """ReRoPE with as many neighbours of a prompt of `length` tokens as Self-Extend has."""
        return Rerope(_neighbours(length))

    @staticmethod
    def leaky(length: int, native: int) -> "Rerope":
        """Leaky ReRoPE whose k is Self-Extend's group, on a model that sees `native` tokens; WarpError."""
        window = _neighbours(length)
        return Rerope(window, leak=1 / _group(length, window, native))

    def pieces(self, queries: torch.Tensor, keys: torch.Tensor) -> tuple[Piece, ...]:
        """The neighbours, and those whose steps shrink."""
        near = Piece(queries.double(), keys.double())
        kept = self.window * (1 - self.leak)
        return near, Piece(near.queries * self.leak + kept, near.keys * self.leak, nearest=self.window)


@dataclass(frozen=True, slots=True)
class Scaled:
    """(i − j) / r (position interpolation: Chen et al. 2023), by which Ms-PoE warps each head.

    Raises WarpError.
    """

    ratio: float

    def __post_init__(self) -> None:
        if not self.ratio > 0:
            raise WarpError("ratio", self.ratio, "must be positive")

    def pieces(self, queries: torch.Tensor, keys: torch.Tensor) -> tuple[Piece, ...]:
        """One piece."""
        return (Piece(queries.double() / self.ratio, keys.double() / self.ratio),)


def ms_poe(awareness: torch.Tensor, low: float = 1.2, high: float = 1.8) -> tuple[Scaled, ...]:
    """The warp of each head: evenly spaced ratios, the lowest for the most aware (Ms-PoE: Zhang et al. 2024).

    Its eq. 2 and algorithm 1. `awareness` [heads] by `position_awareness`; equal ones stay in order.
    """
    order = awareness.argsort(descending=True, stable=True)
    ratios = torch.linspace(low, high, len(awareness), dtype=torch.float64).tolist()
    by_head = dict(zip(order.tolist(), ratios, strict=True))
    return tuple(Scaled(by_head[head]) for head in range(len(awareness)))


def position_awareness(weights: torch.Tensor, threshold: float = 3.0) -> torch.Tensor:
    """The share of keys that a head gives `threshold` times its mean weight or more (Ms-PoE, eq. 1).

    `weights` [heads, keys]: attention of the prompt's last token. Returns float64 [heads].
    """
    return (weights >= threshold * weights.mean(dim=1, keepdim=True)).double().mean(dim=1)


def _neighbours(length: int) -> int:
    """Tokens that stand where they are, of a prompt of `length`."""
    return min(1024, length // 4)


def _group(length: int, window: int, native: int) -> int:
    """The least division, above 1, that ends a prompt's distances within the native ones; WarpError."""
    if native <= window:
        raise WarpError("native", native, f"must exceed the window of {window} tokens")
    return max(2, -(-(length - window) // (native - window)))


def _check_whole(field: str, value: int, least: int) -> None:
    if value < least:
        raise WarpError(field, value, f"must be at least {least}")
