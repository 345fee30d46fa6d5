"""Phases of the cached tokens of one layer, by cache slot: where a sum over tokens goes on from.

A forget gate's phase is a sum over all tokens before. Chunks, decoding and prefix hits begin in the middle
of a sequence, so each token's phase is kept as long as its block lives; like the key shadow's rows, a hit
block's are those of its own tokens, since blocks are equal only where all tokens before them are.
"""

from typing import Any

import torch

from positional.encodings.forgetting import phases

PHASE_BYTES = 8
"""Bytes of one head's phase of one token."""


class PhaseMemory:
    """float64 [slots + 2, heads]; of the last two rows one stays zero, and one takes padding slots."""

    def __init__(self, num_slots: int, block_size: int, heads: int, device: torch.device) -> None:
        self._phases = torch.zeros(num_slots + 2, heads, dtype=torch.float64, device=device)
        self._block_size = block_size
        self._zero, self._spare = num_slots, num_slots + 1

    @property
    def nbytes(self) -> int:
        """Bytes allocated."""
        return self._phases.nbytes

    @property
    def row_bytes(self) -> int:
        """Bytes that one slot takes."""
        return self._phases[0].nbytes

    def advance(self, steps: torch.Tensor, metadata: Any) -> torch.Tensor:
        """Phases float64 [tokens, heads] of a step's tokens by what each adds, `steps` [tokens, heads].

        `metadata`: the attention's, whose block table and slots they are kept by. Tensor operations only, on
        the device.
        """
        starts, lengths = metadata.query_start_loc, metadata.seq_lens
        rows = torch.arange(len(steps), device=steps.device)
        request = (torch.searchsorted(starts, rows, right=True) - 1).clamp(max=len(lengths) - 1)
        before = lengths - (starts[1:] - starts[:-1])
        token = (before - 1).clamp(min=0).long()
        block = metadata.block_table.gather(1, (token // self._block_size)[:, None])[:, 0].long()
        slot = block * self._block_size + token % self._block_size
        carried = self._phases[torch.where(before > 0, slot, self._zero)]
        sums = phases(steps)
        first = starts[:-1].long().clamp(max=len(steps) - 1)
        found = sums + (carried - sums[first] + steps[first])[request]
        slots = metadata.slot_mapping[: len(steps)]
        self._phases.index_copy_(0, torch.where(slots < 0, self._spare, slots).long(), found[: len(slots)])
        return found
