import json
import os
from dataclasses import asdict
from typing import Any

import httpx

from loadtests.memory import RequestCoordinates, Shadow, resident_bytes
from positional.modulation import Modulation
from positional.profile import Profile
from positional.qgpm import PACKAGE_DEFAULTS, build_modulation

PROFILE = Profile.rope(10000.0, 64)
SPANS = [(10 * i, 10 * i + 10) for i in range(30)]
RELEVANCE = [float(-abs(i - 12)) for i in range(30)]
POOLS = [
    {"name": "kv", "bytes_total": 1000, "groups": [{"bytes_per_token": 60}, {"bytes_per_token": 4}]},
    {"name": "shadow", "bytes_total": 50, "groups": [{"bytes_per_token": 3}]},
]


def _answer(request: httpx.Request) -> httpx.Response:
    answers: dict[str, Any] = {
        "/v1/cache": {"pools": POOLS},
        "/v1/positional": {
            "profile": "own",
            "profiles": {"own": PROFILE.describe()},
            "defaults": {"qgpm": "off", "query_tail": 4, **asdict(PACKAGE_DEFAULTS)},
        },
        "/v1/qgpm/relevance": {
            "tokens": {"prompt": 320},
            "sentences": [
                {"start": start, "end": end, "z": z} for (start, end), z in zip(SPANS, RELEVANCE, strict=True)
            ],
        },
    }
    if request.method == "POST":
        assert json.loads(request.content) == {"prompt": "asked"}
    return httpx.Response(200, json=answers[request.url.path])


async def test_the_shadow_is_what_the_server_says_that_it_allocated() -> None:
    async with httpx.AsyncClient(transport=httpx.MockTransport(_answer)) as client:
        shadow = await Shadow.read(client, "http://server")
    assert (shadow.shadow_bytes, shadow.cache_bytes, shadow.share, shadow.verdict) == (
        50,
        1000,
        0.05,
        "holds",
    )


async def test_coordinates_are_made_as_the_server_makes_them_and_their_bytes_counted() -> None:
    async with httpx.AsyncClient(transport=httpx.MockTransport(_answer)) as client:
        found = await RequestCoordinates.read(client, "http://server", {"prompt": "asked"})
    modulation, _ = build_modulation(RELEVANCE, SPANS, 320, PACKAGE_DEFAULTS)
    assert (found.tokens, found.sentences, found.segments) == (320, 30, len(modulation.starts))
    assert Modulation.from_bytes(modulation.to_bytes()) == modulation
    assert found.carried_bytes == len(modulation.to_bytes())
    # Per segment its start, and on 32 planes of two maps an origin and a stride.
    assert found.held_bytes == found.segments * (8 + 2 * 32 * 2 * 8)
    assert found.cache_bytes == 320 * 64


def test_a_servers_memory_is_that_of_its_whole_family() -> None:
    assert resident_bytes(os.getpid()) > 10 << 20
