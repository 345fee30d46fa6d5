"""Every encoding that is served, through the API, against layers written plainly."""

import json
import random
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from server.child import Server, running_server
from server.likelihood import Likelihood, force
from tests.http.servers import BLOCK, PROMPT, SHARED, complete, post
from tests.support.hybrid_reference import HybridReference
from tests.support.hybrids import ENCODED, make_hybrid

pytestmark = pytest.mark.long

CHUNK = 512
FLAGS = (
    *("--max-model-len", "8448", "--max-num-batched-tokens", str(CHUNK)),
    *("--kv-cache-memory-bytes", str(256 << 20)),
)
TURNING = "all global"
SERVED = (TURNING, "partial", "5:1", "global rotary", "all-NoPE", *ENCODED)
"""Of RoPE: halves paired, in part, neighbours paired, scaled by YaRN, and none; then all that is learned."""
BANDS = {"original_max_position_embeddings": 4096, "factor": 4.0}
LISTS = {"short_factor": [1.0] * 16, "long_factor": [1.0 + plane / 4 for plane in range(16)]}
RULES: dict[str, dict[str, Any]] = {
    "another base": {"base": 500_000.0},
    "linear": {"scaling": {"rope_type": "linear", "factor": 4.0}},
    "yarn": {"scaling": {"rope_type": "yarn", **BANDS}},
    "llama3": {"scaling": {"rope_type": "llama3", **BANDS, "low_freq_factor": 1.0, "high_freq_factor": 4.0}},
    "longrope": {"scaling": {"rope_type": "longrope", **BANDS, **LISTS}},
}
"""Of requests: their `rope`, which has the names of a layer's fields."""


@dataclass(frozen=True, slots=True)
class Served:
    """A server and what its answers must be."""

    server: Server
    reference: HybridReference

    @property
    def modulates(self) -> bool:
        """Whether some global layer turns by a rule and has no bias."""
        return any(map(_moves, self.reference.layers))

    def check(
        self, prompt: list[int], forced: list[int], reference: HybridReference | None = None, **fields: Any
    ) -> int:
        """Compare the log-probabilities of forced tokens; how many tokens of the prompt were cached."""
        response = complete(self.server, prompt, logprobs=0, **force(forced), **fields)
        found = Likelihood.read(response)
        expected = (reference or self.reference).forced_logprobs(prompt, forced)
        assert found.logprobs == pytest.approx(expected, abs=1e-3)
        return found.cached_tokens


def _settled(rule: dict[str, Any], length: int) -> dict[str, Any]:
    """A rule as it is for a request of so many tokens: LongRoPE's short ones have factors of their own."""
    scaling = rule.get("scaling", {})
    if scaling.get("rope_type") != "longrope" or length > BANDS["original_max_position_embeddings"]:
        return rule
    return {"scaling": scaling | {"long_factor": scaling["short_factor"]}}


def _moves(layer: dict[str, Any]) -> bool:
    return layer["window"] is None and layer.get("base") is not None and not layer.get("bias")


@pytest.fixture(scope="module", params=SERVED)
def served(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    folder = make_hybrid(request.param, tmp_path_factory.mktemp("encoded"))
    with running_server([str(folder), *SHARED, *FLAGS]) as server:
        yield Served(server, HybridReference(folder))


def tokens(seed: int, count: int) -> list[int]:
    generator = random.Random(seed)
    return [generator.randrange(3, 500) for _ in range(count)]


@pytest.mark.parametrize("offset", [0, 1, 8192])
def test_decoding_goes_on_from_an_offset_as_if_computed_at_once(offset: int, served: Served) -> None:
    """The first answered token is read at the offset; the prompt before it came in chunks."""
    prompt, forced = tokens(offset, offset + 1), tokens(99, 12)
    assert served.check(prompt, forced) == 0
    assert served.check(prompt, forced) == offset // BLOCK * BLOCK


@pytest.mark.parametrize("served", [TURNING], indirect=True)
@pytest.mark.parametrize("name", RULES)
@pytest.mark.parametrize("offset", [0, 1, 8192])
def test_a_rule_of_a_request_turns_as_if_the_model_had_it(
    offset: int, name: str, served: Served, tmp_path: Path
) -> None:
    layers = [layer | _settled(RULES[name], offset) for layer in served.reference.layers]
    ruled = HybridReference(make_hybrid(TURNING, tmp_path, layers=layers))
    prompt, forced = tokens(offset, offset + 1), tokens(99, 12)
    assert served.check(prompt, forced, ruled, rope=RULES[name]) == 0
    assert served.check(prompt, forced, ruled, rope=RULES[name]) == offset // BLOCK * BLOCK


def test_a_prompt_that_shares_a_half_goes_on_from_its_blocks(served: Served) -> None:
    prompt = tokens(3, 3 * CHUNK)
    served.check(prompt, tokens(4, 4))
    assert served.check(prompt[:1000] + tokens(5, 200), tokens(6, 4)) == 1000 // BLOCK * BLOCK


def test_the_plan_says_how_each_layer_meets_the_cache(served: Served) -> None:
    layers = served.server.get("/v1/positional").json()["layers"]
    for layer, given in zip(layers, served.reference.layers, strict=True):
        assert layer["cache"]["rule"] == "fixed"
        assert layer["bias"] == (given.get("bias") or {"kind": None})["kind"]
        assert layer["rotary"] == (given["rotary"] != "none")
        assert (layer["map"] != "standard") == _moves(given)


def test_qgpm_moves_what_it_can_and_refuses_what_it_cannot(served: Served) -> None:
    body: dict[str, Any] = {"prompt": PROMPT, "max_tokens": 2, "qgpm": {"evidence": ["a wooden violin"]}}
    answer = post(served.server, "/v1/completions", **body)
    assert answer.status_code == (200 if served.modulates else 400), answer.text
    if not served.modulates:
        assert answer.json()["error"]["param"] == "qgpm"
        assert "no full-attention rotary layer" in answer.text


def test_a_rule_of_a_request_is_for_layers_that_turn_by_one(served: Served) -> None:
    answer = post(served.server, "/v1/completions", prompt=PROMPT, max_tokens=2, rope={"base": 5000.0})
    ruled = any(layer.get("base") for layer in served.reference.layers)
    assert answer.status_code == (200 if ruled else 400), answer.text
    assert ruled or answer.json()["error"]["param"] == "rope"


def test_a_path_integral_stops_the_start_with_its_layer_and_the_reason(tmp_path: Path) -> None:
    folder = make_hybrid("all-NoPE", tmp_path)
    config = json.loads((folder / "config.json").read_text())
    config["layers"][2]["bias"] = {"kind": "path_integral"}
    (folder / "config.json").write_text(json.dumps(config))
    log = tmp_path / "log.txt"
    with (
        pytest.raises(RuntimeError, match="server ended"),
        running_server([str(folder), *SHARED], log=log),
    ):
        raise AssertionError("it started")
    told = log.read_text()
    assert "layers.2.bias.kind: cannot be served: each query weighs every step" in told
