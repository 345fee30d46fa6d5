"""Whether a generator's maps stay of a size, which its composition law does not tell."""

from dataclasses import dataclass
from typing import Literal

import torch

from positional.encodings.contract import EncodingError
from positional.encodings.generator import Generator

Growth = Literal["none", "polynomial", "exponential"]

CONDITION_LIMIT = 1e3
"""A basis beyond it loses three of the seven digits that float32 has."""


class UnstableError(EncodingError):
    """A generator that is not to be used so: the field, the value and the reason."""


@dataclass(frozen=True, slots=True)
class Stability:
    """How large T(a)x can become.

    `forward`, `backward`: growth as the age rises above 0, which is all that a causal mask lets a query see,
    and as it falls below. `condition`: of the basis, its largest singular value by its smallest: T(a) can
    enlarge a vector, and an error of rounding, by that much where the spectrum alone would not. `departure`:
    the rate at which the fastest vector grows at age 0, in nats a token; above 0 though nothing grows for
    ever where the generator is not normal.
    """

    forward: Growth
    backward: Growth
    condition: float
    departure: float

    @staticmethod
    def of(generator: Generator) -> "Stability":
        """By the blocks, the basis' singular values, and the symmetric part of X."""
        matrix = generator.matrix()
        return Stability(
            forward=_growth(generator, 1),
            backward=_growth(generator, -1),
            condition=1.0 if generator.basis is None else float(torch.linalg.cond(generator.basis)),
            departure=float(torch.linalg.eigvalsh((matrix + matrix.T) / 2)[-1]),
        )

    def require(self, *, bidirectional: bool, condition_limit: float = CONDITION_LIMIT) -> None:
        """Raises UnstableError for what would not bear the use.

        Growth by powers of the age is what additive biases are made of, and passes where ages do not fall
        below 0. In both directions nothing may grow: a decay of the past would enlarge the future.
        """
        if not self.condition <= condition_limit:
            raise UnstableError("basis", self.condition, f"its condition must be at most {condition_limit:g}")
        if self.forward == "exponential":
            raise UnstableError("decay", self.forward, "a block grows with a key's age")
        if bidirectional and (self.forward, self.backward) != ("none", "none"):
            reason = "a block grows at negative ages, which keys ahead have"
            raise UnstableError("blocks", self.backward, reason)


def _growth(generator: Generator, direction: int) -> Growth:
    if any(direction * block.decay < 0 for block in generator.blocks):
        return "exponential"
    if any(block.decay == 0 and block.degree for block in generator.blocks):
        return "polynomial"
    return "none"
