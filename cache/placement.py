"""Where a request's tokens stand, and by which rule they are rotated, where that is not the stock way."""

from dataclasses import dataclass

import torch

from positional.coordinates import Coordinates, MapName
from positional.modulation import ENDLESS, Modulation
from positional.profile import Profile


@dataclass(frozen=True, slots=True, eq=False)
class Placement:
    """A request's coordinates (None: the standard ones) and its profile.

    `own`: the profile is the model's own, so that tokens at standard places take the stock rows.
    """

    coordinates: Coordinates | None
    profile: Profile
    own: bool

    @staticmethod
    def of(modulation: Modulation | None, profile: Profile | None, own: Profile) -> "Placement | None":
        """From what a request carries, under the model's `own` profile; None where all of it is stock."""
        if modulation is None and profile is None:
            return None
        rule = profile or own
        coordinates = None if modulation is None else Coordinates.from_modulation(modulation, rule)
        return Placement(coordinates, rule, profile is None)

    def stock_until(self, map: MapName) -> int:
        """The first token that does not take the stock row in a map."""
        if not self.own:
            return 0
        if self.coordinates is None or map == "standard":
            return ENDLESS
        return self.coordinates.standard_until

    def positions(self, map: MapName, tokens: torch.Tensor) -> torch.Tensor:
        """Positions float64 [tokens, planes] of absolute token indices int64 [tokens] in a map."""
        if self.coordinates is None:
            return tokens.double()[:, None].expand(-1, self.profile.planes)
        return self.coordinates.positions(map, tokens)
