"""The cos | sin rows of one engine step, one buffer per map."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch

from positional.coordinates import Coordinates, MapName
from positional.phases import rotation_rows
from positional.profile import Profile

MODULATED_MAPS: tuple[MapName, ...] = ("broad", "sharp")


@dataclass(frozen=True, slots=True)
class ModulatedSpan:
    """Rows [row, row + tokens) of the step are tokens [token, token + tokens) of a modulated request."""

    coordinates: Coordinates
    row: int
    token: int
    tokens: int


class StepPhases:
    """Persistent rows that the rotary layers read; valid from construction on, filled once per step."""

    def __init__(self, table: torch.Tensor, max_tokens: int, profile: Profile, dtype: torch.dtype) -> None:
        """`table` [positions, rotary_dim]: the stock rows, cast to `dtype` as the stock module would."""
        self._table = table.to(dtype)
        self._profile = profile
        self.index = torch.arange(max_tokens, device=table.device)
        start = self.index.clamp(max=len(table) - 1)
        self.rows = {name: self._table.index_select(0, start) for name in MODULATED_MAPS}

    def fill(self, positions: torch.Tensor, modulated: Sequence[ModulatedSpan]) -> None:
        """Stock rows of `positions` int64 [tokens] everywhere, then computed rows for modulated tokens."""
        for rows in self.rows.values():
            torch.index_select(self._table, 0, positions, out=rows[: len(positions)])
        if modulated:
            self._fill_modulated(modulated)

    def _fill_modulated(self, modulated: Sequence[ModulatedSpan]) -> None:
        spans = [span for span in map(_behind_protected_prefix, modulated) if span.tokens > 0]
        if not spans:
            return
        index = np.concatenate([np.arange(span.row, span.row + span.tokens) for span in spans])
        target = torch.from_numpy(index).to(self._table.device)
        for name, rows in self.rows.items():
            positions = torch.cat(
                [s.coordinates.positions(name, torch.arange(s.token, s.token + s.tokens)) for s in spans]
            )
            rows[target] = rotation_rows(positions, self._profile, rows.dtype).to(rows.device)


def _behind_protected_prefix(span: ModulatedSpan) -> ModulatedSpan:
    """The part of a span whose tokens stand at places of their own; the rest keeps the stock rows."""
    skipped = min(max(span.coordinates.standard_until - span.token, 0), span.tokens)
    return ModulatedSpan(span.coordinates, span.row + skipped, span.token + skipped, span.tokens - skipped)
