"""Which planes are fast: the boundary plane and the gate around it."""

import math

import torch

from positional.profile import Profile


def boundary_plane(profile: Profile, anchor_length: float) -> float:
    """The real plane index m* whose wavelength 2π/ω is `anchor_length` tokens.

    Where ln(2π/ω_m), linear between neighbouring planes and extended by its end slopes, first equals
    ln L_a. For unscaled RoPE this is eq. 3 of the QGPM paper: m(L_a) = d/2 · ln(L_a/2π)/ln θ.
    """
    heights = (math.log(2 * math.pi) - torch.log(profile.inverse_frequencies)).tolist()
    target = math.log(anchor_length)
    if len(heights) == 1:
        return (target - heights[0]) / math.log(profile.base)
    if target <= heights[0]:
        return _crossing(0, heights[0], heights[1], target)
    for plane in range(len(heights) - 1):
        if heights[plane] <= target <= heights[plane + 1]:
            return _crossing(plane, heights[plane], heights[plane + 1], target)
    return _crossing(len(heights) - 2, heights[-2], heights[-1], target)


def _crossing(plane: int, low: float, high: float, target: float) -> float:
    if high == low:
        return float(plane)
    return plane + (target - low) / (high - low)


def gate(profile: Profile, anchor_length: float, gate_width: float) -> torch.Tensor:
    """g_m = σ((m − m*)/τ_m), float64 [planes]: 0 on fast planes, 1 on slow ones (QGPM paper, eq. 7)."""
    planes = torch.arange(profile.planes, dtype=torch.float64)
    return torch.sigmoid((planes - boundary_plane(profile, anchor_length)) / gate_width)
