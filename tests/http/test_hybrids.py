"""A model whose global layers do not rotate, served: what it tells of its layers, and what it refuses."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from server.child import Server, running_server
from server.likelihood import force, token_logprobs
from tests.http.servers import PROMPT, SHARED, complete, post, wait_until_idle
from tests.support.checkpoints import WINDOW, make
from tests.support.reference import Reference

pytestmark = pytest.mark.long

FORCED = [7, 40, 300, 12, 90]


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make("cohere2", tmp_path_factory.mktemp("cohere2"), tie=True, window_pattern=4)


@pytest.fixture(scope="module")
def server(model: Path) -> Iterator[Server]:
    with running_server([str(model), *SHARED]) as server:
        yield server


def test_the_plan_says_which_layers_rotate_and_how_far_they_see(server: Server) -> None:
    layers = server.get("/v1/positional").json()["layers"]
    assert [layer["rotary"] for layer in layers] == [True, True, True, False]
    assert [layer["span"] for layer in layers] == [WINDOW + 1] * 3 + ["full"]


def test_qgpm_is_refused_with_the_reason(server: Server) -> None:
    refused = post(server, "/v1/completions", prompt=PROMPT, max_tokens=2, qgpm=True)
    assert refused.status_code == 400
    assert "no full-attention rotary layer" in refused.text


def test_plain_requests_and_those_of_an_own_rule(server: Server, model: Path) -> None:
    prompt = [*range(20, 20 + 3 * WINDOW)]
    for base in (None, 4_000.0):
        rope = {} if base is None else {"rope": {"base": base}}
        rule = {"rope_type": "default", "rope_theta": base or 10_000.0}
        answer = complete(server, prompt, logprobs=0, **force(FORCED), **rope)
        expected = Reference(model, rule, WINDOW + 1).forced_logprobs(prompt, FORCED)
        assert token_logprobs(answer["choices"][0]) == pytest.approx(expected, abs=1e-3)


def test_a_layer_that_does_other_than_its_config_says_stops_the_start(tmp_path: Path) -> None:
    make("llama", tmp_path)
    config = json.loads((tmp_path / "config.json").read_text())
    config["no_rope_layers"] = [1, 1, 1, 0]
    (tmp_path / "config.json").write_text(json.dumps(config))
    log = tmp_path / "log.txt"
    with (
        pytest.raises(RuntimeError, match="the engine did not start"),
        running_server([str(tmp_path), *SHARED], log=log),
    ):
        raise AssertionError("it started")
    assert "layer 3 rotates its keys, and its config says that it does not" in log.read_text()


def test_groups_of_both_kinds_stand_in_one_pool(server: Server) -> None:
    complete(server, [*range(20, 20 + 3 * WINDOW)])
    wait_until_idle(server)
    pool = server.get("/v1/cache").json()["pools"][0]
    assert pool["name"] == "kv"
    kinds = {(group["kind"], group["window"]) for group in pool["groups"]}
    assert kinds == {("full", None), ("sliding", WINDOW + 1)}
    held = sum(group["bytes_used"] + group["bytes_cached"] for group in pool["groups"])
    assert held + pool["bytes_free"] + pool["bytes_reserved"] == pool["bytes_total"]
    assert sum(group["bytes_used"] for group in pool["groups"]) == 0
    assert held > 0
