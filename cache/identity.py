"""Block identity: what besides its tokens decides the content of a KV block.

vLLM hashes each full block over its tokens, its parent's hash and `extra keys`. Here a modulated
request adds one key to every block that holds a token behind its protected prefix: the digest of the
segments that touch the block and of the numbers that turn scores into strides. As hashes chain, a
block's hash covers the segments of all blocks before it, which with these decide every position in the
block. A request that rotates by another profile than the model's own adds that profile's digest to every
block. Blocks of standard coordinates under the model's own profile get no key, so plain requests, score
passes and protected prefixes share them.
"""

import struct
from bisect import bisect_left, bisect_right
from hashlib import sha256
from typing import Any

from vllm.v1.core import block_pool, kv_cache_utils
from vllm.v1.request import Request

from cache.extra_args import modulation_of, profile_of
from positional.modulation import ENDLESS, Modulation
from positional.profile import Profile

TAG = "ropeway"
_ATTRIBUTE = "ropeway_identity"
_MARK = "ropeway_installed"


class RequestIdentity:
    """The block keys of one request with modulated coordinates, a profile of its own, or both."""

    __slots__ = ("_header", "_modulation", "_profile_key", "_standard_until")

    def __init__(self, modulation: Modulation | None, profile: Profile | None) -> None:
        self._modulation = modulation
        digest = b"" if profile is None else profile.digest
        self._profile_key = None if profile is None else (TAG, digest.hex())
        self._standard_until = ENDLESS
        self._header = struct.pack("<Q", len(digest)) + digest
        if modulation is not None:
            self._standard_until = modulation.standard_until
            self._header += struct.pack("<2d", modulation.anchor_length, modulation.gate_width)

    @property
    def modulated(self) -> bool:
        """Whether some tokens stand at modulated coordinates."""
        return self._modulation is not None

    @property
    def standard_until(self) -> int:
        """The length of the protected prefix in tokens."""
        return self._standard_until

    def block_key(self, start: int, end: int) -> tuple[str, str] | None:
        """Key of the block of tokens [start, end).

        None where all of them stand at standard places under the model's own profile.
        """
        modulation = self._modulation
        if modulation is None or end <= self._standard_until:
            return self._profile_key
        first = bisect_right(modulation.starts, start) - 1
        last = bisect_left(modulation.starts, end)
        # A floor below all scores lengthens no stride: it decides nothing.
        lowest = min(*modulation.broad[first:last], *modulation.sharp[first:last])
        floor = modulation.stride_floor if lowest < modulation.stride_floor else 0.0
        digest = sha256(struct.pack("<4sQd", b"seg3", last - first, floor) + self._header)
        for segment in range(first, last):
            digest.update(
                struct.pack(
                    "<q2d",
                    modulation.starts[segment],
                    modulation.broad[segment],
                    modulation.sharp[segment],
                )
            )
        return (TAG, digest.hexdigest())


def identity_of(request: Request) -> RequestIdentity | None:
    """The request's identity, derived once from the data that its worker rotates by."""
    if not hasattr(request, _ATTRIBUTE):
        parameters = request.sampling_params
        extra_args = parameters.extra_args if parameters else None
        modulation, profile = modulation_of(extra_args), profile_of(extra_args)
        plain = modulation is None and profile is None
        setattr(request, _ATTRIBUTE, None if plain else RequestIdentity(modulation, profile))
    identity: RequestIdentity | None = getattr(request, _ATTRIBUTE)
    return identity


def install() -> None:
    """Make vLLM's block hashes carry our keys, in this process; once is enough, twice is harmless."""
    stock = kv_cache_utils.generate_block_hash_extra_keys
    if hasattr(stock, _MARK):
        return

    def generate_block_hash_extra_keys(
        request: Request, start_token_idx: int, end_token_idx: int, start_mm_idx: int
    ) -> tuple[tuple[Any, ...] | None, int]:
        keys, next_mm_idx = stock(request, start_token_idx, end_token_idx, start_mm_idx)
        identity = identity_of(request)
        key = None if identity is None else identity.block_key(start_token_idx, end_token_idx)
        return (keys if key is None else (*(keys or ()), key)), next_mm_idx

    setattr(generate_block_hash_extra_keys, _MARK, True)
    for module in (kv_cache_utils, block_pool):
        module.generate_block_hash_extra_keys = generate_block_hash_extra_keys
