"""Learned rotations and logit biases of a layer, written plainly: nothing of it is the served model's."""

from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch.nn.functional import linear, logsigmoid, softplus

Weights = Mapping[str, torch.Tensor]
Keeping = Callable[[torch.Tensor], torch.Tensor]
"""What a cached key holds of a number: a position, a phase, a gate times a position."""


def turned(
    layer: dict[str, Any], weights: Weights, name: str, vectors: torch.Tensor, places: torch.Tensor
) -> torch.Tensor:
    """`vectors` [tokens, heads, width] turned by what `layer`'s weights say of their key heads."""
    if layer["rotary"] == "plane":
        return _in_plane(weights[f"{name}.rotary_emb.plane"].double(), vectors, places)
    angles = _by_head(weights[f"{name}.rotary_emb.angles"].double(), vectors)
    planes = angles.shape[-1]
    head, rest = vectors[..., : 2 * planes], vectors[..., 2 * planes :]
    halves = layer.get("pairing") != "interleaved" and not layer.get("basis")
    pairs = head.unflatten(-1, (2, planes)).transpose(-1, -2) if halves else head.unflatten(-1, (planes, 2))
    spun = torch.view_as_complex(pairs.double().contiguous()) * torch.polar(
        torch.ones((), dtype=torch.float64), places.double()[:, None, None] * angles
    )
    pairs = torch.view_as_real(spun).to(vectors.dtype)
    head = pairs.transpose(-1, -2).flatten(-2) if halves else pairs.flatten(-2)
    return torch.cat((head, rest), dim=-1)


def in_basis(weights: Weights, name: str, vectors: torch.Tensor) -> torch.Tensor:
    """The parts of `vectors` [tokens, heads, width] along the columns of their basis."""
    basis = _by_head(weights[f"{name}.rotary_basis.weight"].double(), vectors)
    return torch.einsum("thw,hwc->thc", vectors.double(), basis).to(vectors.dtype)


class LogitBias:
    """What is added to the logits of a layer, float32 [heads, queries, keys]."""

    def __init__(
        self,
        layer: dict[str, Any],
        weights: Weights,
        name: str,
        states: torch.Tensor,
        query: torch.Tensor,
        key: torch.Tensor,
        places: torch.Tensor,
        keeping: Keeping,
    ) -> None:
        """`states` [tokens, hidden]; `query` and `key` [tokens, heads, width] before they are turned.

        `places` [tokens]: where all of them stand.
        """
        self._own, self._kept, self._keeping = places.double(), keeping(places.double()), keeping
        self._heads = query.shape[1]
        self._bias: dict[str, Any] = layer.get("bias") or {"kind": "none"}
        self._phases = self._query_slopes = self._key_slopes = torch.zeros(1, 1, dtype=torch.float64)
        if self._bias["kind"] == "forget":
            gates = linear(states, weights[f"{name}.logit_bias.weight"], weights[f"{name}.logit_bias.bias"])
            phases = logsigmoid(gates.double()).cumsum(0)
            self._phases = phases.repeat_interleave(self._heads // phases.shape[1], dim=1)
        for side, content in (("query", query), ("key", key)):
            if side in self._bias.get("gates", ()):
                read = (content.double() * weights[f"{name}.logit_bias.{side}_gate"].double()).sum(-1)
                read = read / content.shape[-1] ** 0.5
                slopes = read if self._bias.get("link") == "identity" else softplus(read)
                slopes = slopes.repeat_interleave(self._heads // slopes.shape[1], dim=1)
                setattr(self, f"_{side}_slopes", self._bias.get("frequency", 1.0) * slopes)

    def rows(self, queries: slice, keys: slice) -> torch.Tensor | None:
        """Of some queries and keys."""
        own = self._own[queries, None]
        behind = self._kept[None, keys] - own
        match self._bias["kind"]:
            case "none":
                return None
            case "alibi":
                slopes = torch.tensor(self._bias.get("slopes") or _slopes(self._heads), dtype=torch.float64)
                return (slopes[:, None, None] * behind).float()
            case "forget":
                return (
                    self._phases[queries].T[:, :, None] - self._keeping(self._phases)[keys].T[:, None]
                ).float()
        asked = self._query_slopes.expand(len(self._own), -1)[queries].T[:, :, None]
        gates = self._key_slopes.expand(len(self._own), -1)
        products = self._keeping(gates * self._own[:, None])[keys].T[:, None] - own * gates[keys].T[:, None]
        return (asked * behind + products).float()


def _slopes(heads: int) -> list[float]:
    """ALiBi's: of the nearest power of two below, then those halfway between them from the first on."""
    power = 2 ** (heads.bit_length() - 1)
    between = [2.0 ** (-8 * (head + 0.5) / power) for head in range(heads - power)]
    return [2.0 ** (-8 * (head + 1) / power) for head in range(power)] + between


def _in_plane(plane: torch.Tensor, vectors: torch.Tensor, places: torch.Tensor) -> torch.Tensor:
    """By exp(n(abᵀ − baᵀ)), which turns b towards a: in orthonormal coordinates of the plane."""
    a, b = (_by_head(each, vectors) for each in plane.unbind(1))
    first = b / b.norm(dim=-1, keepdim=True)
    across = a - (a * first).sum(-1, keepdim=True) * first
    angle = places.double()[:, None] * (across.norm(dim=-1) * b.norm(dim=-1))
    second = across / across.norm(dim=-1, keepdim=True)
    x, y = ((vectors.double() * axis).sum(-1) for axis in (first, second))
    to_first = x * (angle.cos() - 1) - y * angle.sin()
    to_second = y * (angle.cos() - 1) + x * angle.sin()
    return (vectors.double() + to_first[..., None] * first + to_second[..., None] * second).to(vectors.dtype)


def _by_head(given: torch.Tensor, vectors: torch.Tensor) -> torch.Tensor:
    """What is given for 1 or all key heads, for each of the heads of `vectors`."""
    return given.repeat_interleave(vectors.shape[1] // len(given), dim=0)
