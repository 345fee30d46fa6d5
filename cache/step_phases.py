"""The cos | sin rows of one engine step, one buffer per map."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch

from cache.placement import Placement
from positional.coordinates import MapName
from positional.phases import rotation_rows

MODULATED_MAPS: tuple[MapName, ...] = ("broad", "sharp")


@dataclass(frozen=True, slots=True)
class PlacedSpan:
    """Rows [row, row + tokens) of the step are tokens [token, token + tokens) of a request."""

    placement: Placement
    row: int
    token: int
    tokens: int

    def computed(self, map: MapName) -> "PlacedSpan":
        """The part whose rows are computed in a map; the rest keeps the stock rows."""
        skipped = min(max(self.placement.stock_until(map) - self.token, 0), self.tokens)
        return PlacedSpan(self.placement, self.row + skipped, self.token + skipped, self.tokens - skipped)


class StepPhases:
    """Persistent rows that the rotary layers read; valid from construction on, filled once per step."""

    def __init__(
        self,
        table: torch.Tensor,
        max_tokens: int,
        dtype: torch.dtype,
        maps: Sequence[MapName] = MODULATED_MAPS,
    ) -> None:
        """`table` [positions, rotary_dim]: the stock rows, cast to `dtype` as the stock module would."""
        self._table = table.to(dtype)
        self.index = torch.arange(max_tokens, device=table.device)
        start = self.index.clamp(max=len(table) - 1)
        self.rows = {name: self._table.index_select(0, start) for name in maps}

    def fill(self, positions: torch.Tensor, placed: Sequence[PlacedSpan]) -> None:
        """Stock rows of `positions` int64 [tokens] everywhere, then computed rows for placed tokens."""
        for rows in self.rows.values():
            torch.index_select(self._table, 0, positions, out=rows[: len(positions)])
        if placed:
            # Without coordinates a token stands at one place in all maps.
            self._compute(list(self.rows), [s for s in placed if s.placement.coordinates is None])
            for name in self.rows:
                self._compute([name], [s for s in placed if s.placement.coordinates is not None])

    def _compute(self, maps: Sequence[MapName], placed: Sequence[PlacedSpan]) -> None:
        by_profile: dict[int, list[PlacedSpan]] = {}
        for span in placed:
            computed = span.computed(maps[0])
            if computed.tokens:
                by_profile.setdefault(id(computed.placement.profile), []).append(computed)
        for spans in by_profile.values():
            index = np.concatenate([np.arange(span.row, span.row + span.tokens) for span in spans])
            target = torch.from_numpy(index).to(self._table.device)
            positions = torch.cat(
                [
                    span.placement.positions(maps[0], torch.arange(span.token, span.token + span.tokens))
                    for span in spans
                ]
            )
            rows = rotation_rows(positions, spans[0].placement.profile, self._table.dtype)
            for name in maps:
                self.rows[name][target] = rows.to(self._table.device)
