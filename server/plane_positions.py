"""Where a prompt's tokens stand on a fast, the boundary and a slow plane."""

from itertools import chain
from typing import Any

import torch

from positional.coordinates import Coordinates
from positional.modulation import Modulation
from positional.planes import boundary_plane
from positional.profile import Profile


def plane_positions(modulation: Modulation, profile: Profile, num_tokens: int) -> dict[str, Any]:
    """JSON: `tokens`, the first and the last of each segment, and per plane their positions in both maps.

    Between two of these tokens positions are straight lines, so their number is that of the sentences at most
    four times over, whatever the prompt's length. `boundary` is the real plane m* of eq. 3 of the QGPM paper;
    `planes` are the fastest one, the one nearest to it and the slowest one, by `name`.
    """
    starts = [start for start in modulation.starts if start < num_tokens]
    ends = [start - 1 for start in (*starts[1:], num_tokens)]
    tokens = sorted(set(chain(starts, ends)))
    boundary = boundary_plane(profile, modulation.anchor_length)
    last = profile.planes - 1
    chosen = {"fast": 0, "boundary": min(max(round(boundary), 0), last), "slow": last}
    every = Coordinates.from_modulation(modulation, profile)
    # Before the tokens are placed: what is looked up then has three planes, not all.
    planes = list(chosen.values())
    placed = Coordinates(
        every.starts, every.origin[..., planes], every.stride[..., planes], every.standard_until
    )
    broad, sharp = (_columns(placed.positions(name, tokens)) for name in ("broad", "sharp"))
    return {
        "tokens": tokens,
        "boundary": boundary,
        "planes": [
            {"name": name, "plane": plane, "broad": in_broad, "sharp": in_sharp}
            for (name, plane), in_broad, in_sharp in zip(chosen.items(), broad, sharp, strict=True)
        ],
    }


def _columns(positions: torch.Tensor) -> list[list[float]]:
    columns: list[list[float]] = positions.T.tolist()
    return columns
