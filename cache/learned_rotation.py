"""Multiplicative GRAPE in a served layer: planes and frequencies that are among its weights.

`rotary_basis.weight` [1 or key heads, head_dim, head_dim]: orthonormal columns, of which 2m and 2m + 1 span
plane m. `rotary_emb.angles` [1 or key heads, planes]: radians per position, of either sign.
`rotary_emb.plane` [key heads, 2, head_dim]: a and b of exp(n(abᵀ − baᵀ)). Query heads turn as their key head.
"""

import math
from typing import Any

import torch
from torch import nn
from torch.library import Library
from vllm.config import VllmConfig
from vllm.forward_context import get_forward_context
from vllm.utils.torch_utils import direct_register_custom_op

from cache.head_weights import head_weights
from positional.encodings.rank_two import RankTwo
from positional.encodings.subspaces import Subspaces
from positional.phases import rotate
from positional.profile import Pairing

# How far the products of a stored basis' columns may be from 0 and 1: what a store in bf16 leaves.
_ORTHONORMAL = 0.05


class LearnedBasis(nn.Module):
    """Takes queries and keys into a learned basis: through the projections where that commutes, else here.

    It does not commute with a norm of each head by unequal weights, nor with gates, which read what stands
    before it; and neither quantised projections nor those that adapters add to can be multiplied once and
    for all.
    """

    ordered: torch.Tensor

    def __init__(self, heads: int, width: int, planes: int, pairing: Pairing, *, folds: bool) -> None:
        super().__init__()
        self.weight = head_weights(heads, width, width)
        self.folds = folds
        self._planes, self._pairing = planes, pairing
        self.register_buffer("ordered", torch.eye(width).expand(len(self.weight), -1, -1).clone(), False)

    def settle(self, name: str, projection: Any, sizes: list[int]) -> None:
        """Once weights are loaded: fold the basis into `projection`, query | key | value rows of `sizes`.

        Raises ValueError, naming the layer, for a basis that is not orthonormal.
        """
        stored = self.weight.double()
        error = float((stored.mT @ stored - torch.eye(stored.shape[-1]).to(stored)).abs().max())
        if not error <= _ORTHONORMAL:
            raise ValueError(f"{name}.weight is not an orthonormal basis (by {error:.2g})")
        angles = torch.ones(self._planes, dtype=torch.float64)
        basis = Subspaces.nearest(stored.cpu(), angles)
        if not self.folds:
            eye = torch.eye(basis.width, dtype=torch.float64)
            rows = basis.into_basis(eye[:, None].expand(-1, len(stored), -1), self._pairing)
            self.ordered.copy_(rows.transpose(0, 1))
            return
        for parameter in (projection.weight, projection.bias):
            if parameter is not None:
                for part in parameter.data.split(sizes)[:2]:
                    part.copy_(basis.fold(part.cpu(), self._pairing))

    def forward(self, query: torch.Tensor, key: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """`query` and `key` [tokens, heads × width] in the basis, where they are not already."""
        if self.folds:
            return query, key
        return self._taken(query), self._taken(key)

    def _taken(self, states: torch.Tensor) -> torch.Tensor:
        heads, width = len(self.ordered), self.ordered.shape[-1]
        grouped = states.view(len(states), heads, -1, width)
        return torch.einsum("thgw,hwv->thgv", grouped, self.ordered.to(states.dtype)).reshape(states.shape)


class LearnedRotation(nn.Module):
    """Stands where the rotary module does; a token stands at its index, whatever a request says."""

    def __init__(self, width: int, config: VllmConfig, name: str) -> None:
        super().__init__()
        self._width = width
        self._name = name
        # By this name the operator, which the compiler does not look into, finds the module.
        config.compilation_config.static_forward_context[name] = self

    def forward(
        self, positions: torch.Tensor, query: torch.Tensor, key: torch.Tensor
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Turn query and key [tokens, heads × width] at `positions` [tokens]."""
        turned: tuple[torch.Tensor, torch.Tensor] = torch.ops.ropeway.turn(positions, query, key, self._name)
        return turned

    def turned(self, positions: torch.Tensor, states: torch.Tensor) -> torch.Tensor:
        """`states` [tokens, heads × width] in float32 arithmetic, then their dtype."""
        grouped = states.float().view(len(states), self.key_heads, -1, self._width)
        return self.turn(positions, grouped).to(states.dtype).reshape(states.shape)

    @property
    def key_heads(self) -> int:
        """How many heads turn differently on this rank; neighbours among query heads turn alike."""
        raise NotImplementedError

    def turn(self, positions: torch.Tensor, grouped: torch.Tensor) -> torch.Tensor:
        """`grouped` [tokens, key heads, group, width], turned."""
        raise NotImplementedError

    def reference(self) -> Subspaces | RankTwo:
        """What it has to do, in float64, for [tokens, key heads, width]."""
        raise NotImplementedError

    def settle(self) -> None:
        """Once weights are loaded, forget what was derived from others."""


class LearnedSpectrum(LearnedRotation):
    """Turns the planes of a pairing by learned frequencies."""

    def __init__(
        self, heads: int, planes: int, pairing: Pairing, width: int, config: VllmConfig, name: str
    ) -> None:
        super().__init__(width, config, name)
        self.angles = head_weights(heads, planes)
        self._pairing = pairing

    @property
    def key_heads(self) -> int:
        return len(self.angles)

    def turn(self, positions: torch.Tensor, grouped: torch.Tensor) -> torch.Tensor:
        angles = positions.double()[:, None, None] * self.angles.double()
        angles = torch.remainder(angles, 2 * math.pi).flatten(0, 1)
        rows = torch.cat((angles.cos(), angles.sin()), dim=-1).to(grouped.dtype)
        return rotate(grouped.flatten(0, 1), rows, self._pairing).view(grouped.shape)

    def reference(self) -> Subspaces:
        eye = torch.eye(self._width, dtype=torch.float64)
        planes = self.angles.shape[-1]
        if self._pairing == "half":
            paired = torch.arange(2 * planes).view(2, -1).T.flatten()
            eye = eye[:, torch.cat((paired, torch.arange(2 * planes, self._width)))]
        return Subspaces(eye, self.angles.double().cpu())


class LearnedPlane(LearnedRotation):
    """Turns one learned plane of each key head, at a cost of the head's width."""

    def __init__(self, heads: int, width: int, config: VllmConfig, name: str) -> None:
        super().__init__(width, config, name)
        self.plane = head_weights(heads, 2, width)
        self._encoding: RankTwo | None = None

    @property
    def key_heads(self) -> int:
        return len(self.plane)

    def turn(self, positions: torch.Tensor, grouped: torch.Tensor) -> torch.Tensor:
        if self._encoding is None:
            a, b = self.plane.double().unbind(1)
            self._encoding = RankTwo(a, b)
        by_group = grouped.transpose(1, 2)
        return self._encoding.rotate(by_group, positions[:, None, None]).transpose(1, 2)

    def reference(self) -> RankTwo:
        a, b = self.plane.double().cpu().unbind(1)
        return RankTwo(a, b)

    def settle(self) -> None:
        self._encoding = None


def _turn(
    positions: torch.Tensor, query: torch.Tensor, key: torch.Tensor, name: str
) -> tuple[torch.Tensor, torch.Tensor]:
    module = get_forward_context().no_compile_layers[name]
    return module.turned(positions, query), module.turned(positions, key)


def _turn_fake(
    positions: torch.Tensor, query: torch.Tensor, key: torch.Tensor, name: str
) -> tuple[torch.Tensor, torch.Tensor]:
    return torch.empty_like(query), torch.empty_like(key)


_LIBRARY = Library("ropeway", "FRAGMENT")  # type: ignore[no-untyped-call]
direct_register_custom_op("turn", _turn, fake_impl=_turn_fake, target_lib=_LIBRARY)
