"""Plain copies of the rotated keys of the tapped heads, addressed by cache slot.

A prefix hit skips the forward of its tokens, and attention backends store keys in layouts of their own;
so the few keys that relevance is read from are kept here, as long as their blocks live.
"""

import torch


class KeyShadow:
    """Keys of one tapped layer: [kv heads, slots + 1, width]; the last row takes padding slots."""

    def __init__(
        self, kv_heads: int, num_slots: int, width: int, dtype: torch.dtype, device: torch.device
    ) -> None:
        self._keys = torch.zeros(kv_heads, num_slots + 1, width, dtype=dtype, device=device)
        self._spare = num_slots

    @property
    def nbytes(self) -> int:
        """Bytes allocated."""
        return self._keys.nbytes

    @property
    def row_bytes(self) -> int:
        """Bytes that one slot takes."""
        return self._keys[:, 0].numel() * self._keys.itemsize

    def write(self, slots: torch.Tensor, keys: torch.Tensor) -> None:
        """Keep `keys` [kv heads, ≥ tokens, width] under `slots` int64 [tokens]; −1 is padding."""
        rows = torch.where(slots < 0, self._spare, slots)
        self._keys.index_copy_(1, rows, keys[:, : len(slots)])

    def read(self, kv_head: int, slots: torch.Tensor) -> torch.Tensor:
        """Keys [tokens, width] of one head under `slots` int64 [tokens]."""
        return self._keys[kv_head].index_select(0, slots)
