"""The policy `auto` where the config declares the scaled rule itself: longrope, and one per layer type."""

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from transformers import AutoTokenizer

from server.child import Server, running_server
from server.likelihood import force, token_logprobs
from tests.http.fidelity import FORCED, TOLERANCE, Prompt, largest_difference
from tests.http.servers import SHARED, complete
from tests.support.checkpoints import make
from tests.support.reference import Reference

pytestmark = pytest.mark.long

NATIVE = 256
SCALED = 4 * NATIVE
PLANES = 16
SHORT = [1.0 + 0.05 * plane for plane in range(PLANES)]
LONG = [1.5 + 0.5 * plane for plane in range(PLANES)]


@dataclass(frozen=True, slots=True)
class Case:
    """A served model, and the oracle of each of its two rules."""

    server: Server
    tokenizer: Any
    native: Reference
    scaled: Reference


def phi3(folder: Path) -> tuple[dict[str, Any], dict[str, Any]]:
    """A longrope model; the rules of its short and its long factors at any length."""
    rope = {
        "rope_type": "longrope",
        "rope_theta": 10_000.0,
        "original_max_position_embeddings": NATIVE,
        "partial_rotary_factor": 1.0,
    }
    make(
        "phi3",
        folder,
        max_positions=SCALED,
        rope_parameters={**rope, "short_factor": SHORT, "long_factor": LONG},
    )
    config = json.loads((folder / "config.json").read_text())
    config["original_max_position_embeddings"] = NATIVE
    config["rope_parameters"]["original_max_position_embeddings"] = NATIVE
    (folder / "config.json").write_text(json.dumps(config))
    native, scaled = ({**rope, "short_factor": f, "long_factor": f} for f in (SHORT, LONG))
    return native, scaled


def gemma3(folder: Path) -> tuple[dict[str, Any], dict[str, Any]]:
    """A model with a rule per layer type, of which only full attention's is scaled."""
    sliding = {"sliding_attention": {"rope_type": "default", "rope_theta": 10_000.0}}
    native = {**sliding, "full_attention": {"rope_type": "default", "rope_theta": 1e6}}
    scaled = {**sliding, "full_attention": {"rope_type": "linear", "rope_theta": 1e6, "factor": 4.0}}
    make("gemma3", folder, max_positions=SCALED, rope_parameters=scaled)
    return native, scaled


@pytest.fixture(scope="module", params=[phi3, gemma3], ids=["longrope", "per layer type"])
def case(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Case]:
    build: Callable[[Path], tuple[dict[str, Any], dict[str, Any]]] = request.param
    folder = tmp_path_factory.mktemp("declared")
    native, scaled = (Reference(folder, rule) for rule in build(folder))
    arguments = [str(folder), *SHARED, "--max-model-len", str(SCALED), "--rope-policy", "auto"]
    with running_server(arguments) as server:
        yield Case(server, AutoTokenizer.from_pretrained(folder), native, scaled)


@pytest.mark.parametrize("excess", [-1, 0, 1, 100])
def test_a_request_goes_over_to_the_scaled_rule_beyond_the_native_window(excess: int, case: Case) -> None:
    """vllm#27431, transformers#33129: short and long factors in one sequence, off by one at the border."""
    prompt = Prompt.completion(case.tokenizer, NATIVE - FORCED + excess, seed=5)
    forced = [3 + (17 * index) % 490 for index in range(FORCED)]
    response = complete(case.server, prompt.tokens, logprobs=0, **force(forced))
    native, scaled = (
        reference.forced_logprobs(prompt.tokens, forced) for reference in (case.native, case.scaled)
    )
    expected = scaled if excess > 0 else native
    assert token_logprobs(response["choices"][0]) == pytest.approx(expected, abs=TOLERANCE)
    assert largest_difference(native, scaled) > 10 * TOLERANCE


def test_a_prompt_that_fits_natively_adds_nothing_to_its_blocks(case: Case) -> None:
    prompt = Prompt.completion(case.tokenizer, 100, seed=9)
    first, second = (
        complete(case.server, prompt.tokens, **fields) for fields in ({}, {"rope": {"policy": "auto"}})
    )
    assert first["choices"] == second["choices"]
    assert second["usage"]["prompt_tokens_details"]["cached_tokens"] == 96
