"""vLLM's app with what Ropeway adds to it, without an engine: who is asked first, what each route wants."""

from argparse import Namespace
from collections.abc import Iterator

import httpx
import pytest
from fastapi import FastAPI
from fastapi.testclient import TestClient
from prometheus_client import CollectorRegistry
from vllm.entrypoints.launchers.app import build_app

from server.admin_key import HEADER
from server.drain import Drain
from server.error_response import OwnRoute
from server.extension import extend
from server.flags import parser
from server.metrics import Metrics

API_KEY = {"Authorization": "Bearer api-key"}
JSON = {"Content-Type": "application/json"}
MOST = 1000


@pytest.fixture(scope="module")
def registry() -> CollectorRegistry:
    return CollectorRegistry()


@pytest.fixture(scope="module")
def app(registry: CollectorRegistry) -> FastAPI:
    keys = ("--api-key", "api-key", "--admin-key", "admin-key")
    args: Namespace = parser().parse_args(["model", *keys, "--max-body-bytes", str(MOST)])
    made = build_app(args, ("generate",), None)
    extend(made, args, Metrics(registry), Drain())
    return made


@pytest.fixture
def client(app: FastAPI) -> TestClient:
    return TestClient(app, raise_server_exceptions=False)


GUARDED = ("/v1/responses", "/v1/completions", "/v1/qgpm/relevance", "/v1/nowhere", "/inference/v1/generate")


@pytest.mark.parametrize("path", GUARDED)
@pytest.mark.parametrize(
    "headers", [{}, {"Authorization": "Bearer api-kez"}, {"Authorization": "Basic api-key"}]
)
def test_who_has_no_key_is_told_that_before_anything_of_the_body(
    client: TestClient, path: str, headers: dict[str, str]
) -> None:
    bodies = ('{"qgpm": true, "rope": {}}', "{" * MOST * 2, '{"a": ' + "[" * 400)
    assert {client.post(path, content=body, headers=headers).status_code for body in bodies} == {401}


def test_a_body_of_a_client_without_a_key_is_not_read(client: TestClient) -> None:
    read = 0

    def endless() -> Iterator[bytes]:
        nonlocal read
        while read < 100:
            read += 1
            yield b"x"

    assert client.post("/v1/completions", content=endless(), headers=JSON).status_code == 401
    assert read == 0


@pytest.mark.parametrize("path", ["/v1/completions", "/v1/responses", "/tokenize", "/invocations"])
def test_a_large_body_is_refused_on_every_route(
    client: TestClient, registry: CollectorRegistry, path: str
) -> None:
    def limited() -> float:
        return registry.get_sample_value("ropeway_limited_requests_total", {"limit": "body"}) or 0

    before = limited()
    for content in (b"x" * (MOST + 1), iter([b"x" * MOST, b"x"])):
        refused = client.post(path, content=content, headers={**API_KEY, **JSON})
        assert refused.status_code == 413
        assert refused.json()["error"]["param"] == "body"
    assert limited() == before + 2


@pytest.mark.parametrize("path", ["/v1/completions", "/v1/chat/completions", "/v1/qgpm/relevance"])
def test_json_that_is_nested_too_deep_is_refused_in_openai_s_shape(path: str) -> None:
    args = parser().parse_args(["model"])
    app = build_app(args, ("generate",), None)
    extend(app, args, Metrics(CollectorRegistry()), Drain())
    client = TestClient(app, raise_server_exceptions=False)
    deep = '{"model": "m", "qgpm": ' + "[" * 100_000 + "]" * 100_000 + "}"
    refused = client.post(path, content=deep, headers=JSON)
    assert refused.status_code == 400
    assert set(refused.json()["error"]) == {"message", "type", "param", "code"}
    assert client.post("/nowhere").json() == {"detail": "Not Found"}  # vLLM's own answer


def _own(app: FastAPI) -> dict[tuple[str, str], OwnRoute]:
    routes = [route for route in app.routes if isinstance(route, OwnRoute)]
    return {(method, route.path): route for route in routes for method in route.methods}


def test_of_our_routes_only_the_admin_s_changes_anything(app: FastAPI) -> None:
    writing = {name for name in _own(app) if name[0] != "GET"}
    assert writing == {("POST", "/v1/qgpm/relevance"), ("PUT", "/v1/positional/profile")}


def _put(client: TestClient, key: str | None) -> httpx.Response:
    headers = API_KEY if key is None else {**API_KEY, HEADER: key}
    answer: httpx.Response = client.put("/v1/positional/profile", content="{}", headers=headers)
    return answer


@pytest.mark.parametrize("key", [None, "", "admin-kez", "api-key"])
def test_the_admin_s_route_wants_the_admin_s_key(client: TestClient, key: str | None) -> None:
    refused = _put(client, key)
    assert (refused.status_code, refused.json()["error"]["param"]) == (401, HEADER)


def test_the_admin_s_key_is_no_api_key(client: TestClient) -> None:
    headers = {HEADER: "admin-key", "Authorization": "Bearer admin-key"}
    assert client.put("/v1/positional/profile", content="{}", headers=headers).status_code == 401


def test_without_an_admin_s_key_the_route_is_off(client: TestClient, app: FastAPI) -> None:
    key, app.state.ropeway_admin_key = app.state.ropeway_admin_key, None
    try:
        assert _put(client, "admin-key").status_code == 404
    finally:
        app.state.ropeway_admin_key = key


def test_every_route_of_ours_under_v1_wants_an_api_key(client: TestClient, app: FastAPI) -> None:
    for method, path in _own(app):
        if path.startswith("/v1/"):
            assert client.request(method, path).status_code == 401


def test_every_route_of_ours_tells_browsers_to_be_careful(client: TestClient, app: FastAPI) -> None:
    for _, path in _own(app):
        for key, status in ((API_KEY, 405), ({}, 401 if path.startswith("/v1/") else 405)):
            answer = client.delete(path, headers=key)
            assert answer.status_code == status
            assert answer.headers["x-content-type-options"] == "nosniff"
            assert answer.headers["x-frame-options"] == "DENY"
            assert answer.headers["referrer-policy"] == "no-referrer"
    assert "x-frame-options" not in client.get("/version").headers
