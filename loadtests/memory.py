"""What Ropeway's own state takes: the key shadow, one request's coordinates, and whole servers."""

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any

import httpx
import psutil

from loadtests.ratios import Verdict
from positional.coordinates import Coordinates
from positional.profile import Profile
from positional.qgpm import QGPMConfig, build_modulation

SHADOW_LIMIT = 0.06


@dataclass(frozen=True, slots=True)
class Shadow:
    """Bytes of key shadow and of KV memory on one server, as they were allocated."""

    shadow_bytes: int
    cache_bytes: int

    @property
    def share(self) -> float:
        """Key shadow over KV memory."""
        return self.shadow_bytes / self.cache_bytes

    @property
    def verdict(self) -> Verdict:
        """Whether the shadow stays within its share."""
        return "holds" if self.share <= SHADOW_LIMIT else "does not hold"

    @staticmethod
    async def read(client: httpx.AsyncClient, url: str) -> "Shadow":
        """What the server says of its pools."""
        pools = {pool["name"]: pool["bytes_total"] for pool in await _pools(client, url)}
        return Shadow(pools["shadow"], pools["kv"])


@dataclass(frozen=True, slots=True)
class RequestCoordinates:
    """What the coordinates of one request of so many prompt tokens take.

    `carried_bytes` ride in the request, `held_bytes` are the tensors that a worker makes of them and keeps
    while the request runs; `cache_bytes`: the prompt's KV cache beside them.
    """

    tokens: int
    sentences: int
    segments: int
    carried_bytes: int
    held_bytes: int
    cache_bytes: int

    @staticmethod
    async def read(client: httpx.AsyncClient, url: str, body: Mapping[str, Any]) -> "RequestCoordinates":
        """Make a request's coordinates of the relevance that the server finds, and look at their size.

        They are the very objects that server and worker make; a server tells nobody their size.
        """
        found = (await _post(client, f"{url}/v1/qgpm/relevance", body)).json()
        plan = (await _get(client, f"{url}/v1/positional")).json()
        tokens, sentences = found["tokens"]["prompt"], found["sentences"]
        names = [field.name for field in fields(QGPMConfig)]
        modulation, _ = build_modulation(
            [sentence["z"] for sentence in sentences],
            [(sentence["start"], sentence["end"]) for sentence in sentences],
            tokens,
            QGPMConfig(**{name: plan["defaults"][name] for name in names}),
        )
        made = Coordinates.from_modulation(modulation, _profile(plan))
        [pool] = [pool for pool in await _pools(client, url) if pool["name"] == "kv"]
        return RequestCoordinates(
            tokens,
            len(sentences),
            len(modulation.starts),
            len(modulation.to_bytes()),
            sum(tensor.nbytes for tensor in (made.starts, made.origin, made.stride)),
            tokens * sum(group["bytes_per_token"] for group in pool["groups"]),
        )


def resident_bytes(pid: int) -> int:
    """Memory of a process and its children, each page that they share counted once (elsewhere than on Linux
    once for each of them)."""
    parent = psutil.Process(pid)
    infos = [process.memory_full_info() for process in (parent, *parent.children(recursive=True))]
    return sum(getattr(info, "pss", info.rss) for info in infos)


def _profile(plan: Mapping[str, Any]) -> Profile:
    """The model's own RoPE profile, from what `GET /v1/positional` tells of it."""
    told = plan["profiles"][plan["profile"]]
    return Profile(
        told["base"],
        told["rotary_dim"],
        told["pairing"],
        attention_factor=told["attention_factor"],
        frequencies=tuple(told["inverse_frequencies"]),
    )


async def _pools(client: httpx.AsyncClient, url: str) -> list[dict[str, Any]]:
    pools: list[dict[str, Any]] = (await _get(client, f"{url}/v1/cache")).json()["pools"]
    return pools


async def _get(client: httpx.AsyncClient, address: str) -> httpx.Response:
    return (await client.get(address)).raise_for_status()


async def _post(client: httpx.AsyncClient, address: str, body: Mapping[str, Any]) -> httpx.Response:
    return (await client.post(address, json=dict(body))).raise_for_status()
