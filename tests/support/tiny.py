"""How the tests serve a tiny checkpoint."""

from tests.support.forced import PROCESSOR

TINY = (
    "--dtype", "float32",
    "--enforce-eager",
    "--max-model-len", "4096",
    "--kv-cache-memory-bytes", str(64 << 20),
    "--gpu-memory-utilization", "0.1",  # on the CPU: of free memory, checked at start
    "--logits-processors", PROCESSOR,
)  # fmt: skip
"""Flags for a tiny checkpoint whose tokens can be forced; later flags override earlier ones."""
