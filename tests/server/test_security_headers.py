"""What browsers are told about the answers of our own routes, and only of those."""

import pytest
from fastapi import APIRouter, FastAPI, Response
from fastapi.testclient import TestClient
from starlette.middleware import Middleware
from starlette.responses import PlainTextResponse
from starlette.types import ASGIApp, Receive, Scope, Send

from server.error_response import OwnRoute
from server.security_headers import HEADERS, secure_own_routes


class _Locked:
    """Refuses who says no word, as a check of keys does."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        known = any(name == b"word" for name, _ in scope["headers"])
        await (self._app if known else PlainTextResponse("no", 401))(scope, receive, send)


@pytest.fixture
def client() -> TestClient:
    app, own = FastAPI(middleware=[Middleware(_Locked)]), APIRouter(route_class=OwnRoute)

    @own.get("/own/{name:path}")
    def get_own(name: str) -> str:
        return name

    @own.get("/kept")
    def get_kept(response: Response) -> None:
        response.headers["Cache-Control"] = "max-age=60"

    @own.get("/broken")
    def get_broken() -> None:
        raise ValueError

    @app.get("/stock")
    def get_stock() -> None:
        pass

    app.include_router(own)
    app.exception_handler(ValueError)(lambda *_: PlainTextResponse("bad", 400))
    secure_own_routes(app)
    return TestClient(app, headers={"word": "yes"})


@pytest.mark.parametrize(
    ("method", "path", "status"), [("GET", "/own/a/b", 200), ("POST", "/own/a", 405), ("GET", "/broken", 400)]
)
def test_every_answer_of_ours_has_them(client: TestClient, method: str, path: str, status: int) -> None:
    response = client.request(method, path)
    assert response.status_code == status
    assert HEADERS.items() <= {name: response.headers[name] for name in HEADERS}.items()
    assert (HEADERS["X-Content-Type-Options"], HEADERS["X-Frame-Options"]) == ("nosniff", "DENY")
    assert HEADERS["Referrer-Policy"] == "no-referrer"


def test_who_is_not_let_in_gets_them_too(client: TestClient) -> None:
    client.headers.pop("word")
    response = client.get("/own/a")
    assert (response.status_code, response.headers["x-frame-options"]) == (401, "DENY")


def test_a_route_s_own_word_is_kept(client: TestClient) -> None:
    assert client.get("/kept").headers["cache-control"] == "max-age=60"


@pytest.mark.parametrize("path", ["/stock", "/nowhere"])
def test_other_routes_are_left_alone(client: TestClient, path: str) -> None:
    assert not HEADERS.keys() & {name.title() for name in client.get(path).headers}
