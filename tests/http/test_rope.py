"""A RoPE rule per request over HTTP: the policy `auto`, rules of a request's own, many in one batch."""

import json
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from functools import lru_cache
from pathlib import Path
from typing import Any

import pytest
from transformers import AutoTokenizer

from server.child import Server, running_server
from server.likelihood import force, token_logprobs
from tests.http.fidelity import FORCED, SETTINGS, TOLERANCE, Prompt, largest_difference
from tests.http.servers import MODEL, SHARED
from tests.support.checkpoints import make
from tests.support.head_profiles import save_arbitrary
from tests.support.reference import Modulated, Reference

NATIVE = 512
BASE = 10_000.0
YARN = {"rope_type": "yarn", "factor": 4.0}
DECLARED = {**YARN, "original_max_position_embeddings": NATIVE, "rope_theta": BASE}
SCALED = 4 * NATIVE
PLANES = 16
LONG_FACTORS = [1.0 + 0.5 * plane for plane in range(PLANES)]
UNSCALED = {"rope_type": "default", "rope_theta": BASE}
LONGROPE = {
    "rope_type": "longrope",
    "short_factor": [1.0] * PLANES,
    "long_factor": LONG_FACTORS,
    "factor": 4.0,
    "original_max_position_embeddings": NATIVE,
}
LLAMA3 = {
    "rope_type": "llama3",
    "factor": 3.0,
    "low_freq_factor": 1.0,
    "high_freq_factor": 4.0,
    "original_max_position_embeddings": 128,
}
# What a request says in `rope`, and the rule in transformers' spelling.
RULES: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "base": ({"base": 500.0}, {"rope_type": "default", "rope_theta": 500.0}),
    "default": ({"scaling": {"rope_type": "default"}}, UNSCALED),
    "linear": (
        {"base": 2000.0, "scaling": {"rope_type": "linear", "factor": 2.5}},
        {"rope_type": "linear", "factor": 2.5, "rope_theta": 2000.0},
    ),
    "yarn": (
        {"scaling": {"rope_type": "yarn", "factor": 16.0}},
        {**DECLARED, "factor": 16.0},
    ),
    "llama3": ({"scaling": LLAMA3}, {**LLAMA3, "rope_theta": BASE}),
    "longrope": ({"scaling": LONGROPE}, {**LONGROPE, "rope_theta": BASE}),
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A tiny Llama that sees 512 tokens."""
    made = make("llama", tmp_path_factory.mktemp("rope"), max_positions=NATIVE, rope_parameters=UNSCALED)
    save_arbitrary(made, MODEL)
    return made


@pytest.fixture(scope="module")
def server(folder: Path) -> Iterator[Server]:
    """The policy `auto` under YARN, and chunks that end inside prompts."""
    arguments = [
        *(str(folder), *SHARED, "--max-model-len", str(SCALED), "--max-num-batched-tokens", "192"),
        *("--rope-policy", "auto", "--rope-scaling", json.dumps(YARN)),
    ]
    with running_server(arguments) as started:
        yield started


@pytest.fixture(scope="module")
def tokenizer(folder: Path) -> Any:
    return AutoTokenizer.from_pretrained(folder)


@pytest.fixture(scope="module")
def reference(folder: Path) -> Any:
    """The reference under a rule, by its JSON."""
    return lru_cache(lambda rule: Reference(folder, json.loads(rule)))


def expected(
    reference: Any, rule: Mapping[str, Any], prompt: Prompt, forced: list[int], modulated: Any = None
) -> list[float]:
    made: Reference = reference(json.dumps(rule))
    return made.forced_logprobs(prompt.tokens, forced, modulated)


def forced_tokens(seed: int = 0) -> list[int]:
    return [3 + (seed * 31 + 17 * index) % 490 for index in range(FORCED)]


def ask(server: Server, prompt: Prompt, forced: list[int], **fields: Any) -> dict[str, Any]:
    body = {"model": MODEL, "prompt": prompt.tokens, "logprobs": 0, **force(forced), **fields}
    response = server.post("/v1/completions", body)
    assert response.status_code == 200, response.text
    content: dict[str, Any] = response.json()
    return content


def found(server: Server, prompt: Prompt, forced: list[int], **fields: Any) -> list[float]:
    return token_logprobs(ask(server, prompt, forced, **fields)["choices"][0])


def refused(server: Server, **fields: Any) -> dict[str, Any]:
    response = server.post("/v1/completions", {"model": MODEL, "prompt": [5] * 20, "max_tokens": 2, **fields})
    assert response.status_code == 400, response.text
    error: dict[str, Any] = response.json()["error"]
    return error


@pytest.mark.parametrize("length", [100, NATIVE - FORCED - 1, NATIVE - FORCED])
def test_auto_leaves_what_fits_natively_unscaled(
    length: int, server: Server, tokenizer: Any, reference: Any
) -> None:
    """vllm#8793, sglang#6030: static YaRN hurts short prompts."""
    prompt, forced = Prompt.completion(tokenizer, length, seed=length), forced_tokens()
    plain = expected(reference, UNSCALED, prompt, forced)
    assert found(server, prompt, forced) == pytest.approx(plain, abs=TOLERANCE)
    if length > 200:
        assert largest_difference(plain, expected(reference, DECLARED, prompt, forced)) > 10 * TOLERANCE


@pytest.mark.parametrize("length", [NATIVE - FORCED + 1, NATIVE + 1, 1500, SCALED - FORCED])
def test_auto_scales_what_may_grow_beyond_the_native_window(
    length: int, server: Server, tokenizer: Any, reference: Any
) -> None:
    """transformers#33129: off by one at the border."""
    prompt, forced = Prompt.completion(tokenizer, length, seed=length), forced_tokens()
    scaled = expected(reference, DECLARED, prompt, forced)
    assert found(server, prompt, forced) == pytest.approx(scaled, abs=TOLERANCE)
    assert largest_difference(scaled, expected(reference, UNSCALED, prompt, forced)) > 10 * TOLERANCE


@pytest.mark.parametrize("name", RULES)
def test_a_request_brings_a_rule_of_its_own(
    name: str, server: Server, tokenizer: Any, reference: Any
) -> None:
    rope, rule = RULES[name]
    length = 300 if name in ("base", "default", "llama3") else 700
    prompt, forced = Prompt.completion(tokenizer, length, seed=3), forced_tokens(3)
    own = expected(reference, rule, prompt, forced)
    assert found(server, prompt, forced, rope=rope) == pytest.approx(own, abs=TOLERANCE)


@pytest.mark.parametrize("total", [NATIVE - 1, NATIVE, NATIVE + 1])
def test_longrope_is_fixed_by_the_longest_that_a_request_may_get(
    total: int, server: Server, tokenizer: Any, reference: Any
) -> None:
    """vllm#27431: keys cached with the short factors, then long."""
    rope, rule = RULES["longrope"]
    factors = "short_factor" if total <= NATIVE else "long_factor"
    fixed = {**rule, "short_factor": LONGROPE[factors], "long_factor": LONGROPE[factors]}
    prompt, forced = Prompt.completion(tokenizer, total - FORCED, seed=4), forced_tokens(4)
    values = expected(reference, fixed, prompt, forced)
    assert found(server, prompt, forced, rope=rope) == pytest.approx(values, abs=TOLERANCE)


def test_dynamic_ntk_is_fixed_by_the_longest_that_a_request_may_get(
    server: Server, tokenizer: Any, reference: Any
) -> None:
    prompt, forced = Prompt.completion(tokenizer, 700, seed=5), forced_tokens(5)
    rule = {"rope_type": "dynamic", "factor": 2.0, "rope_theta": BASE}
    # One token more is what the reference must see to take the frequencies of the whole length.
    whole = expected(reference, rule, prompt, [*forced, 3])[:FORCED]
    rope = {"scaling": {"rope_type": "dynamic", "factor": 2.0}}
    assert found(server, prompt, forced, rope=rope) == pytest.approx(whole, abs=TOLERANCE)


def test_many_rules_in_one_batch_are_each_exact(server: Server, tokenizer: Any, reference: Any) -> None:
    """Two requests of a batch keep their state apart (Ms-PoE), modulated ones too."""
    asks: list[tuple[Prompt, list[int], dict[str, Any], list[float]]] = []
    for seed, (rope, rule) in enumerate(RULES.values(), 20):
        prompt, forced = Prompt.completion(tokenizer, 100 + 10 * seed, seed=seed), forced_tokens(seed)
        evidence = prompt.evidence("middle")
        moved = prompt.moved_by(evidence)
        qgpm = {"evidence": evidence, **SETTINGS}
        asks += [
            (prompt, forced, {"rope": rope}, expected(reference, rule, prompt, forced)),
            (prompt, forced, {}, expected(reference, UNSCALED, prompt, forced)),
            (prompt, forced, {"rope": rope, "qgpm": qgpm}, expected(reference, rule, prompt, forced, moved)),
        ]
    with ThreadPoolExecutor(len(asks)) as pool:
        answers = list(pool.map(lambda a: found(server, a[0], a[1], cache_salt="batch", **a[2]), asks))
    for (_, _, fields, values), answer in zip(asks, answers, strict=True):
        assert answer == pytest.approx(values, abs=TOLERANCE), fields.get("rope")


@pytest.mark.parametrize("name", ["yarn", "base"])
def test_both_passes_rotate_by_the_requests_rule(
    name: str, server: Server, tokenizer: Any, reference: Any
) -> None:
    rope, rule = RULES[name]
    prompt, forced = Prompt.completion(tokenizer, 400, seed=30), forced_tokens(30)
    response = ask(server, prompt, forced, rope=rope, qgpm=SETTINGS)
    record = server.get(f"/v1/requests/{response['id']}").json()
    heads = ((1, 0), (2, 3))
    made: Reference = reference(json.dumps(rule))
    z, _ = made.relevance(prompt.tokens, heads, prompt.query_rows, prompt.spans, prompt.silent)
    for row in record["top"]:
        assert row["z"] == pytest.approx(z[prompt.spans.index((row["start"], row["end"]))], abs=TOLERANCE)
    ranks = {(row["start"], row["end"]): row["rank"] for row in record["top"]}
    moved: Modulated = prompt.modulated([-float(ranks.get(s, len(prompt.spans))) for s in prompt.spans])
    values = expected(reference, rule, prompt, forced, moved)
    assert token_logprobs(response["choices"][0]) == pytest.approx(values, abs=TOLERANCE)


def test_the_relevance_route_reads_under_the_requests_rule(
    server: Server, tokenizer: Any, reference: Any
) -> None:
    rope, rule = RULES["linear"]
    prompt = Prompt.completion(tokenizer, 300, seed=31)
    body = {"model": MODEL, "prompt": prompt.tokens, "max_tokens": 16, "rope": rope}
    response = server.post("/v1/qgpm/relevance", body).json()
    made: Reference = reference(json.dumps(rule))
    z, _ = made.relevance(prompt.tokens, ((1, 0), (2, 3)), prompt.query_rows, prompt.spans, prompt.silent)
    assert [row["z"] for row in response["sentences"]] == pytest.approx(z, abs=TOLERANCE)


def test_without_max_tokens_an_answer_ends_with_the_native_window(server: Server) -> None:
    body = {"model": MODEL, "max_tokens": None, "ignore_eos": True, "temperature": 0}
    response = server.post("/v1/completions", {**body, "prompt": [5 + n % 400 for n in range(500)]}).json()
    assert response["choices"][0]["finish_reason"] == "length"
    assert response["usage"]["completion_tokens"] == NATIVE - 500
    message = [{"role": "user", "content": "one two three"}]
    chat = {**body, "messages": message}
    del chat["max_tokens"]
    response = server.post("/v1/chat/completions", chat).json()
    assert response["usage"]["total_tokens"] == NATIVE


def test_a_least_answer_beyond_the_native_window_is_scaled_or_refused(server: Server) -> None:
    fields = {"prompt": [5 + n % 400 for n in range(NATIVE - 2)], "max_tokens": None, "min_tokens": 10}
    response = server.post("/v1/completions", {"model": MODEL, **fields, "ignore_eos": True})
    assert response.status_code == 200, response.text
    assert response.json()["usage"]["completion_tokens"] >= 10
    error = refused(server, **fields, rope={"scaling": {"rope_type": "default"}})
    assert error["param"] == "min_tokens"
    assert str(NATIVE + 8) in error["message"]
    assert str(NATIVE) in error["message"]


def test_without_max_tokens_a_longer_prompt_ends_with_the_scaled_window(server: Server) -> None:
    prompt = [5 + n % 400 for n in range(SCALED - 8)]
    body = {"model": MODEL, "max_tokens": None, "ignore_eos": True, "temperature": 0, "prompt": prompt}
    response = server.post("/v1/completions", body).json()
    assert response["choices"][0]["finish_reason"] == "length"
    assert response["usage"]["completion_tokens"] == 8


def test_a_length_that_a_rule_does_not_cover_is_refused_with_both_numbers(server: Server) -> None:
    error = refused(server, prompt=[7] * 600, max_tokens=5, rope={"scaling": {"rope_type": "default"}})
    assert error["param"] == "rope"
    assert "605" in error["message"]
    assert str(NATIVE) in error["message"]
    rope = {"scaling": {"rope_type": "linear", "factor": 1.25}}
    error = refused(server, prompt=[7] * 600, max_tokens=41, rope=rope)
    assert error["param"] == "max_tokens"
    assert "641" in error["message"]
    assert "640" in error["message"]


@pytest.mark.parametrize(
    ("rope", "parameter"),
    [
        (True, "rope"),
        ({}, "rope"),
        ({"bse": 1}, "rope.bse"),
        ({"base": 1.0}, "rope.base"),
        ({"base": "1e6"}, "rope.base"),
        ({"policy": "native"}, "rope.policy"),
        ({"policy": "auto", "base": 7.0}, "rope.policy"),
        ({"scaling": {"rope_type": "yarm", "factor": 2}}, "rope.scaling.rope_type"),
        ({"scaling": {"rope_type": "yarn"}}, "rope.scaling.factor"),
        ({"scaling": {"rope_type": "yarn", "factor": 0.5}}, "rope.scaling.factor"),
        ({"scaling": {"rope_type": "linear", "factor": 2, "beta_fast": 1}}, "rope.scaling.beta_fast"),
        ({"scaling": {**LONGROPE, "long_factor": [1.0]}}, "rope.scaling.long_factor"),
        ({"scaling": {**YARN, "attention_factor": 1e19}}, "rope.scaling"),
    ],
)
def test_a_rule_that_cannot_be_is_refused_by_name(rope: Any, parameter: str, server: Server) -> None:
    error = refused(server, rope=rope)
    assert error["param"] == parameter
    assert parameter in error["message"]
    assert server.post("/v1/completions", {"model": MODEL, "prompt": "go on", "max_tokens": 1}).is_success


def test_requests_of_one_rule_share_blocks_and_those_of_two_do_not(server: Server, tokenizer: Any) -> None:
    """vllm#30931: two profiles that differ in one number, the second must hit nothing."""
    prompt, forced = Prompt.completion(tokenizer, 300, seed=40), forced_tokens(40)

    def cached(rope: Any) -> int:
        usage = ask(server, prompt, forced, rope=rope)["usage"]
        return int((usage["prompt_tokens_details"] or {}).get("cached_tokens") or 0)

    whole = 300 // 32 * 32
    assert [cached({"base": 600.0}) for _ in range(2)] == [0, whole]
    assert [cached({"base": 600.5}) for _ in range(2)] == [0, whole]
    assert [cached(None) for _ in range(2)] == [0, whole]
    assert cached({"scaling": {"rope_type": "default"}}) == whole  # the model's own rule, said aloud
    assert cached({"policy": "auto"}) == whole
