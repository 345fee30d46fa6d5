"""Which warps the layers of a model attend by while one prompt is answered, and the attention that asks."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, get_args

import torch

from positional.profile import Profile
from positional.warped_attention import last_weights, warped_attention
from positional.warps import Plain, Rerope, SelfExtend, String, Warp, ms_poe, position_awareness

Baseline = Literal["string", "self_extend", "rerope", "leaky_rerope", "ms_poe"]
BASELINES: tuple[Baseline, ...] = get_args(Baseline)
Method = Baseline | Literal["plain"]

ATTENTION = "ropeway_warped"
"""What transformers knows `attend` by."""


class UnwarpableError(Exception):
    """The model cannot be warped; the message says why."""


@dataclass(frozen=True, slots=True)
class Warping:
    """The warps of one prompt's layers.

    `profile` has the model's frequencies, without an attention factor, which the model applies itself;
    `native`: the tokens that the model sees; `length`: those of the prompt.
    """

    method: Method
    profile: Profile
    native: int
    length: int
    _by_layer: dict[int, Sequence[Warp]] = field(default_factory=dict)

    def warps(self, layer: int, query: torch.Tensor, key: torch.Tensor, scale: float) -> Sequence[Warp]:
        """The warp of each head of a layer, settled when the prompt is read.

        `query` and `key` [tokens, heads, width] are then the prompt's, unrotated. Ms-PoE orders the heads of
        a layer by what the prompt's last token reads there in plain positions, from states that the layers
        below have made under their own ratios (algorithm 1); every layer is warped, and the ratios hold for
        the answer. Its authors' code reads unrotated queries and keys, takes 4 for the paper's threshold of 3
        and leaves the first two layers plain.
        """
        if layer not in self._by_layer:
            self._by_layer[layer] = self._settled(query, key, scale)
        return self._by_layer[layer]

    def _settled(self, query: torch.Tensor, key: torch.Tensor, scale: float) -> Sequence[Warp]:
        heads = query.shape[1]
        match self.method:
            case "plain":
                return (Plain(),) * heads
            case "string":
                return (String.at(self.length),) * heads
            case "self_extend":
                return (SelfExtend.at(self.length, self.native),) * heads
            case "rerope":
                return (Rerope.rectified(self.length),) * heads
            case "leaky_rerope":
                return (Rerope.leaky(self.length, self.native),) * heads
            case "ms_poe":
                weights = last_weights(query, key, Plain(), self.profile, scale=scale)
                return ms_poe(position_awareness(weights))


def attend(
    module: torch.nn.Module,
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    attention_mask: torch.Tensor | None,
    *,
    scaling: float,
    warping: Warping,
    sliding_window: int | None = None,
    **kwargs: Any,
) -> tuple[torch.Tensor, None]:
    """transformers' attention function: [1, heads, tokens, width] in, [1, tokens, heads, width] out.

    Causal, whatever the mask: one prompt, without padding. Raises UnwarpableError for a layer with a window.
    """
    layer = int(module.layer_idx)  # type: ignore[arg-type]
    if sliding_window is not None:
        raise UnwarpableError(f"The model cannot be warped: layer {layer} has a window.")
    queries, keys, values = (tensor[0].transpose(0, 1).float() for tensor in (query, key, value))
    warps = warping.warps(layer, queries, keys, scaling)
    output = warped_attention(queries, keys, values, warps, warping.profile, scale=scaling)
    return output[None].to(query.dtype), None
