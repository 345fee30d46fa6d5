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


def test_a_refused_request_is_counted_and_named() -> None:
    app = FastAPI()
    app.state.args = type("Args", (), {"log_error_stack": False})
    refused: list[Reason] = []
    count_refusals(app, refused.append)

    @app.get("/")
    def refuse() -> None:
        raise RequestError("rope.base must be above 0", "rope.base")

    response = TestClient(app).get("/")
    assert (response.status_code, response.json()["error"]["param"]) == (400, "rope.base")
    assert refused == ["rope"]
