"""By which reason a refusal is counted."""

import pytest
from fastapi import FastAPI
from fastapi.testclient import TestClient

from server.refusal import Reason, count_refusals, reason_of
from server.request_error import RequestError


@pytest.mark.parametrize(
    ("parameter", "reason"),
    [
        ("qgpm", "qgpm"),
        ("qgpm.k_sharp", "qgpm"),
        ("qgpm.anything that a client thought of", "qgpm"),
        ("qgpm.question", "text"),
        ("qgpm.evidence[3]", "text"),
        ("messages", "text"),
        ("rope.scaling.factor", "rope"),
        ("max_tokens", "length"),
        ("vllm_xargs", "forged"),
        ("what an administrator sent", "other"),
    ],
)
def test_a_reason_is_one_of_few_whatever_was_sent(parameter: str, reason: Reason) -> None:
    assert reason_of(RequestError("no", parameter)) == reason


@pytest.mark.parametrize(
    ("name", "told", "reason"),
    [("rope.base", "rope.base", "rope"), ("half \ud800 of a pair", "half \\ud800 of a pair", "other")],
)
def test_a_refused_request_is_counted_and_named(name: str, told: str, reason: Reason) -> None:
    app = FastAPI()
    app.state.args = type("Args", (), {"log_error_stack": False})
    refused: list[Reason] = []
    count_refusals(app, refused.append)

    @app.get("/")
    def refuse() -> None:
        raise RequestError(f"{name} must be above 0", name)

    response = TestClient(app).get("/")
    error = response.json()["error"]
    assert (response.status_code, error["param"]) == (400, told)
    assert error["message"].startswith(f"{told} must be above 0")
    assert refused == [reason]
