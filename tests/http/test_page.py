"""The page at /ui of a running server, and what it reads there."""

import httpx
import pytest
import torch

from positional.coordinates import Coordinates
from positional.profile import Profile
from positional.qgpm import PACKAGE_DEFAULTS, build_modulation
from server.child import Server
from tests.http.servers import PROMPT, relevance

pytest_plugins = ("tests.http.fixtures",)


def test_the_page_needs_no_key(crowded: Server) -> None:
    response = httpx.get(f"{crowded.url}/ui", follow_redirects=True)
    assert response.status_code == 200
    assert response.url.path == "/ui/"
    assert "default-src 'none'" in response.headers["Content-Security-Policy"]
    assert httpx.get(f"{crowded.url}/v1/cache").status_code == 401


@pytest.mark.parametrize("path", ["/ui", "/ui/", "/ui/main.js"])
def test_a_server_can_be_without_the_page(headless: Server, path: str) -> None:
    assert headless.get(path).status_code == 404


def test_the_page_is_no_part_of_the_api_s_description(server: Server) -> None:
    assert not [path for path in server.get("/openapi.json").json()["paths"] if path.startswith("/ui")]


def test_positions_are_those_of_the_prompt_s_coordinates(server: Server) -> None:
    found = relevance(server, prompt=PROMPT)
    rule = server.get("/v1/positional").json()["default"]["profile"]
    profile = Profile.rope(rule["base"], 2 * _planes(server))
    spans = [(row["start"], row["end"]) for row in found["sentences"]]
    z = [row["z"] for row in found["sentences"]]
    modulation, _ = build_modulation(z, spans, found["tokens"]["prompt"], PACKAGE_DEFAULTS)
    coordinates = Coordinates.from_modulation(modulation, profile)
    told = found["positions"]
    assert [plane["name"] for plane in told["planes"]] == ["fast", "boundary", "slow"]
    for plane in told["planes"]:
        for name in ("broad", "sharp"):
            expected = coordinates.positions(name, told["tokens"])[:, plane["plane"]]
            torch.testing.assert_close(torch.tensor(plane[name], dtype=torch.float64), expected)


def test_a_prompt_that_is_not_modulated_has_no_positions(server: Server) -> None:
    found = relevance(server, prompt="One sentence.\n\nQuestion: What?")
    assert found["positions"] is None


def _planes(server: Server) -> int:
    planes: int = max(plane["plane"] for plane in relevance(server, prompt=PROMPT)["positions"]["planes"]) + 1
    return planes
