"""The canonical quarter turn J of a pairing."""

import torch

from positional.profile import Pairing


def quarter_turn(vectors: torch.Tensor, pairing: Pairing = "interleaved") -> torch.Tensor:
    """Jx: each pair (x, y) of `vectors` [..., width] becomes (−y, x); the last of an odd width becomes 0."""
    even = vectors.shape[-1] // 2 * 2
    paired, odd = vectors[..., :even], torch.zeros_like(vectors[..., even:])
    if pairing == "half":
        first, second = paired.chunk(2, dim=-1)
        return torch.cat((-second, first, odd), dim=-1)
    turned = torch.stack((-paired[..., 1::2], paired[..., 0::2]), dim=-1).flatten(-2)
    return torch.cat((turned, odd), dim=-1)
