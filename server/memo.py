"""The memo of relevance: what score passes found, for the same question asked again."""

import struct
import sys
from collections import Counter, OrderedDict
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from hashlib import sha256
from typing import Any, Literal, get_args

import numpy as np
from vllm.lora.request import LoRARequest

Cause = Literal["reset", "weights", "lora", "profile"]

DEFAULT_BYTES = 64 << 20
# What an entry takes beside its digests and its value: key object, nodes and slots of two ordered dicts.
_ENTRY_BYTES = 480
# What one tenant keeps when others need room.
_SHARE = 0.5


@dataclass(frozen=True, slots=True)
class MemoKey:
    """What the relevance of a prompt depends on, as a digest; `adapter` is the LoRA's number.

    `tenant`: a digest of the `cache_salt`, whose share of the memo the entry counts to.
    """

    digest: bytes
    adapter: int | None
    tenant: bytes = field(compare=False)

    @staticmethod
    def of(
        head_profile: bytes,
        tokens: Sequence[int],
        salt: str | None,
        lora: LoRARequest | None,
        carried: Mapping[str, bytes],
    ) -> "MemoKey":
        """SHA-256 over typed, length-prefixed parts.

        `head_profile`: its digest. `salt`: the tenant's `cache_salt`. `carried`: what the score pass carries
        to the worker: query rows, sentence spans and, where it is not the model's own, the profile.
        """
        parts: list[tuple[str, bytes]] = [
            ("head profile", head_profile),
            ("tokens", np.asarray(tokens, "<i8").tobytes()),
            *(("carried " + name, value) for name, value in sorted(carried.items())),
        ]
        salted = b"" if salt is None else salt.encode("utf-8", "surrogatepass")
        if salt is not None:
            parts.append(("salt", salted))
        if lora is not None:
            parts.append(("lora name", lora.lora_name.encode("utf-8", "surrogatepass")))
            parts.append(("lora number", struct.pack("<q", lora.lora_int_id)))
            parts.append(("lora path", lora.lora_path.encode("utf-8", "surrogatepass")))
        hashed = sha256(b"ropeway memo 1")
        for name, value in parts:
            kind = name.encode()
            hashed.update(struct.pack("<2Q", len(kind), len(value)))
            hashed.update(kind)
            hashed.update(value)
        return MemoKey(hashed.digest(), None if lora is None else lora.lora_int_id, sha256(salted).digest())


class RelevanceMemo:
    """Bounded by bytes; the least recently used entry goes first. For one thread.

    What a tenant adds that holds half of the memory takes the place of its own entries, not of others'.
    `head_profile`: the digest of the heads that are read. `limit` in bytes, 0 keeps nothing. What is
    invalidated while a score pass runs makes its result stale: `put` takes the `generation` that was read
    before the pass started.
    """

    def __init__(self, head_profile: bytes, limit: int = DEFAULT_BYTES) -> None:
        self.head_profile = head_profile
        self.limit = limit
        self.bytes = 0
        self.hits = 0
        self.misses = 0
        self.evictions = 0
        self.generation = 0
        self.invalidations: dict[Cause, int] = dict.fromkeys(get_args(Cause), 0)
        self._entries: OrderedDict[MemoKey, bytes] = OrderedDict()
        self._tenants: dict[bytes, OrderedDict[MemoKey, None]] = {}
        self._held: Counter[bytes] = Counter()

    def __len__(self) -> int:
        return len(self._entries)

    def __contains__(self, key: MemoKey) -> bool:
        return key in self._entries

    def get(self, key: MemoKey) -> bytes | None:
        """The value of a key, which becomes the most recently used one; counts a hit or a miss."""
        value = self._entries.get(key)
        if value is None:
            self.misses += 1
            return None
        self.hits += 1
        self._entries.move_to_end(key)
        self._tenants[key.tenant].move_to_end(key)
        return value

    def put(self, key: MemoKey, value: bytes, generation: int) -> None:
        """Keep a value, unless it is stale or larger than the limit alone."""
        size = entry_bytes(key, value)
        if generation != self.generation or size > self.limit:
            return
        self._drop(key)
        self._entries[key] = value
        self._tenants.setdefault(key.tenant, OrderedDict())[key] = None
        self._held[key.tenant] += size
        self.bytes += size
        while self.bytes > self.limit:
            own = self._held[key.tenant] > _SHARE * self.limit
            self._drop(next(iter(self._tenants[key.tenant] if own else self._entries)))
            self.evictions += 1

    @contextmanager
    def invalidating(self, cause: Cause, adapter: int | None = None) -> Iterator[None]:
        """Around a change that makes entries stale: those of an adapter, or all.

        They go before the change, and again behind it with what was found meanwhile, also where it fails.
        """
        self.invalidations[cause] += 1
        self._clear(adapter)
        try:
            yield
        finally:
            self._clear(adapter)

    def describe(self) -> dict[str, Any]:
        """JSON for `GET /v1/cache`."""
        return {
            "entries": len(self),
            "bytes": self.bytes,
            "limit": self.limit,
            "hits": self.hits,
            "misses": self.misses,
            "evictions": self.evictions,
        }

    def _clear(self, adapter: int | None) -> None:
        self.generation += 1
        for key in [key for key in self._entries if adapter is None or key.adapter == adapter]:
            self._drop(key)

    def _drop(self, key: MemoKey) -> None:
        value = self._entries.pop(key, None)
        if value is None:
            return
        size = entry_bytes(key, value)
        self.bytes -= size
        self._held[key.tenant] -= size
        del self._tenants[key.tenant][key]
        if not self._tenants[key.tenant]:
            del self._tenants[key.tenant], self._held[key.tenant]


def entry_bytes(key: MemoKey, value: bytes) -> int:
    """Memory that an entry takes, in bytes."""
    return _ENTRY_BYTES + sys.getsizeof(key.digest) + sys.getsizeof(key.tenant) + sys.getsizeof(value)
