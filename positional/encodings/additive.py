"""Additive GRAPE: content lifted by some coordinates, in which a group of I + sA adds to every logit."""

from dataclasses import dataclass

import torch

from positional.encodings.contract import Contract, EncodingError
from positional.encodings.shapes import placed
from positional.encodings.unipotent import Nilpotent, key_gate, pair, query_gate


@dataclass(frozen=True, slots=True, eq=False)
class Additive:
    """q̂ᵢᵀ H(ω(j − i))⁻ᵀ k̂ⱼ with H(s) = I + sA (GRAPE, eq. 4.3).

    q̂ and k̂ are content and the coordinates `query_tail` and `key_tail` [extra] behind it; `generator` acts on
    all of them. `frequency` ω, of either sign: the bias is (i − j)·ω times what the generator gates it by.
    Raises EncodingError where the widths leave no content.
    """

    generator: Nilpotent
    query_tail: torch.Tensor
    key_tail: torch.Tensor
    frequency: float = 1.0

    def __post_init__(self) -> None:
        if self.query_tail.shape != self.key_tail.shape or self.query_tail.dim() != 1:
            shapes = tuple(self.query_tail.shape), tuple(self.key_tail.shape)
            raise EncodingError("query_tail, key_tail", shapes, "must both be of [extra]")
        if self.generator.width <= len(self.key_tail):
            raise EncodingError("generator", self.generator.width, "must be wider than the added coordinates")

    @staticmethod
    def gated_by_key(direction: torch.Tensor, frequency: float = 1.0) -> "Additive":
        """q·k + 1 + (i − j)·ω·(u·k), in one coordinate more (eq. 4.5): `direction` u [width]."""
        width, one = len(direction), direction.new_ones(1)
        return Additive(key_gate(direction, width + 1, reads=width), one, one, frequency)

    @staticmethod
    def gated_by_query(direction: torch.Tensor, frequency: float = 1.0) -> "Additive":
        """q·k + 1 + (i − j)·ω·(v·q), in one coordinate more (section 4.1): `direction` v [width]."""
        width, one = len(direction), direction.new_ones(1)
        return Additive(query_gate(direction, width + 1, writes=width), one, one, frequency)

    @staticmethod
    def sloped(width: int, slope: float) -> "Additive":
        """q·k − (i − j)·`slope`, in two coordinates more: ALiBi's form (section 4.2)."""
        query_tail, key_tail = torch.eye(2, dtype=torch.float64)
        return Additive(pair(width + 2, reads=width, writes=width + 1), query_tail, key_tail, -slope)

    @property
    def extra(self) -> int:
        """Coordinates beyond the content's."""
        return len(self.key_tail)

    @property
    def contract(self) -> Contract:
        """A lifted key in the place of the key."""
        return Contract(
            acts="query_key",
            needs="its position",
            cached="the key and its added coordinates, lifted to its position",
            cache_rule="fixed",
            relative="exact",
            extra_dimensions=self.extra,
            servable=False,
            why="content and position share coordinates, so that bf16 loses both; "
            "the gated slope is the same bias in coordinates of its own",
        )

    def lift_query(self, query: torch.Tensor, positions: torch.Tensor) -> torch.Tensor:
        """H(ωi)q̂ [..., width + extra] of `query` [..., width] at `positions` [...], in its dtype."""
        return self.generator.act(*self._hatted(query, positions, self.query_tail))

    def lift_key(self, key: torch.Tensor, positions: torch.Tensor) -> torch.Tensor:
        """H(ωj)⁻ᵀk̂ [..., width + extra] of `key` [..., width] at `positions` [...]: cached once for good."""
        return self.generator.act_inversely(*self._hatted(key, positions, self.key_tail))

    def score(
        self, query: torch.Tensor, key: torch.Tensor, query_position: torch.Tensor, key_position: torch.Tensor
    ) -> torch.Tensor:
        """The product of the lifted query and the lifted key [...] (eq. 4.2)."""
        return (self.lift_query(query, query_position) * self.lift_key(key, key_position)).sum(-1)

    def _hatted(
        self, content: torch.Tensor, positions: torch.Tensor, tail: torch.Tensor
    ) -> tuple[torch.Tensor, torch.Tensor]:
        content, each = placed(content, positions)
        behind = tail.to(content).expand(*each.shape, self.extra)
        return torch.cat((content, behind), dim=-1), self.frequency * each.to(content.dtype)
