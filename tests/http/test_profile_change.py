"""`PUT /v1/positional/profile`: new requests take the rule at once, running ones finish or go on under it."""

import random
import threading
from collections import deque
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from transformers import AutoTokenizer

from server.child import Server
from tests.http.servers import ADMIN_KEY, API_KEY, PASSAGE, PROMPT, complete, metric, record, wait_until_idle
from tests.http.streams import (
    NEAR,
    OTHER,
    START,
    TOKENS,
    agreeing,
    change_profile,
    changed_at,
    default,
    forced_logprobs,
    put_profile,
    rebuilding,
    rebuilding_whole,
    streaming,
)
from tests.support.prose import document

pytest_plugins = ("tests.http.fixtures",)

EVIDENCE = {"evidence": [PASSAGE]}
OWN = {"base": 2000.0}


@pytest.fixture(scope="module")
def tokenizer(checkpoint: Path) -> Any:
    return AutoTokenizer.from_pretrained(checkpoint)


@pytest.fixture
def server(server: Server) -> Iterator[Server]:
    """The shared server, warm, whose default is again that of its start afterwards."""
    complete(server)
    yield server
    change_profile(server, "finish")


@pytest.fixture
def prompt(tokenizer: Any, request: pytest.FixtureRequest) -> list[int]:
    text = document(20, seed=len(request.node.name))
    return list(tokenizer(f"{text}\n\nQuestion: Who hid the lighthouse key?").input_ids)


@pytest.mark.parametrize("fields", [{}, {"qgpm": EVIDENCE}], ids=["plain", "modulated"])
def test_a_rebuilt_stream_goes_on_as_a_fresh_request_on_the_new_profile(
    server: Server, prompt: list[int], fields: dict[str, Any]
) -> None:
    """vllm#9744, #42695: stale keys after an update while a request ran."""
    streamed, _ = rebuilding(server, prompt, **fields)
    assert len(streamed.tokens) == len(streamed.logprobs) == TOKENS
    before = forced_logprobs(server, prompt, streamed.tokens, rope=START, **fields)
    behind = forced_logprobs(server, prompt, streamed.tokens, rope=OTHER, **fields)
    change = agreeing(streamed.logprobs, before)
    assert 0 < change < TOKENS
    assert streamed.logprobs[change:] == pytest.approx(behind[change:], abs=NEAR)
    assert streamed.usage["prompt_tokens"] == len(prompt)
    assert streamed.usage["completion_tokens"] == TOKENS
    assert streamed.finish_reason == "length"
    found = record(server, {"id": streamed.id})
    assert (found["rebuilt"], found["tokens"]["output"], found["outcome"]) == (1, TOKENS, "success")
    assert "not_rebuilt" not in found
    assert found["profile"]["generation"] == default(server)["generation"]


def test_a_rebuilt_stream_chooses_the_tokens_of_a_fresh_request(server: Server, prompt: list[int]) -> None:
    streamed, _ = rebuilding(server, prompt)
    before = forced_logprobs(server, prompt, streamed.tokens, rope=START)
    change = agreeing(streamed.logprobs, before)
    prefix, rest = [*prompt, *streamed.tokens[:change]], streamed.tokens[change:]
    wanted = {"max_tokens": len(rest), "return_token_ids": True, "logprobs": 0}
    fresh = complete(server, prefix, cache_salt="fresh", **wanted)["choices"][0]
    same = next((i for i, (a, b) in enumerate(zip(rest, fresh["token_ids"], strict=True)) if a != b), None)
    if same is not None:  # only where two tokens tie
        values = zip(streamed.logprobs[change:], fresh["logprobs"]["token_logprobs"], strict=True)
        assert abs(next(a - b for i, (a, b) in enumerate(values) if i == same)) < NEAR
    assert same is None or same > 0


def test_finish_leaves_a_stream_alone_and_new_requests_take_the_new_profile(
    server: Server, prompt: list[int]
) -> None:
    meanwhile: dict[str, Any] = {}

    def change() -> None:
        generation = default(server)["generation"]
        told = change_profile(server, "finish", **OTHER)
        assert told["generation"] == generation + 1
        assert told["profile"]["base"] == OTHER["base"]
        assert str(generation + 1) not in told["running"]
        assert default(server) == {n: v for n, v in told.items() if n not in ("rebuilt", "not_rebuilt")}
        meanwhile["new"] = complete(server, prompt, max_tokens=8, logprobs=0, return_token_ids=True)

    streamed = changed_at(server, prompt, change, tokens=3 * TOKENS)
    before = forced_logprobs(server, prompt, streamed.tokens, rope=START)
    assert streamed.logprobs == pytest.approx(before, abs=NEAR)
    found = record(server, {"id": streamed.id})
    assert found["rebuilt"] == 0
    assert found["profile"]["generation"] == default(server)["generation"] - 1
    (choice,) = meanwhile["new"]["choices"]
    expected = forced_logprobs(server, prompt, choice["token_ids"], rope=OTHER)
    assert choice["logprobs"]["token_logprobs"] == pytest.approx(expected, abs=NEAR)
    assert record(server, meanwhile["new"])["profile"] != found["profile"]
    assert default(server)["running"] == {}


def test_no_block_of_the_old_profile_is_hit(server: Server, prompt: list[int]) -> None:
    """vllm#42125, #42495: reload in place kept old blocks."""
    cached = []
    for rule in ({}, {}, OTHER, OTHER, {}):
        change_profile(server, "finish", **rule)
        usage = complete(server, prompt, cache_salt="changed")["usage"]
        cached.append((usage["prompt_tokens_details"] or {}).get("cached_tokens") or 0)
    assert cached[0] == cached[2] == 0
    assert cached[1] == cached[3] == cached[4] >= len(prompt) - 32


def test_a_request_with_a_rule_of_its_own_is_not_touched(server: Server, prompt: list[int]) -> None:
    counts: list[dict[str, int]] = []

    def change() -> None:
        counts.append(change_profile(server, "rebuild", **OTHER)["running"])

    streamed = changed_at(server, prompt, change, tokens=3 * TOKENS, rope=OWN)
    assert counts == [{"own": 1}]
    expected = forced_logprobs(server, prompt, streamed.tokens, rope=OWN)
    assert streamed.logprobs == pytest.approx(expected, abs=NEAR)
    found = record(server, {"id": streamed.id})
    assert (found["rebuilt"], found["profile"]["generation"]) == (0, None)


@pytest.mark.parametrize(
    ("reason", "fields"),
    [
        ("seed", {"seed": 0}),
        ("n", {"n": 2, "temperature": 1}),
        ("presence_penalty", {"presence_penalty": 1e-6}),
        ("repetition_penalty", {"repetition_penalty": 1.000001}),
        ("bad_words", {"bad_words": ["violin"]}),
        ("structured_outputs", {"structured_outputs": {"regex": "[a-z ]{999,}"}}),
        ("vllm_xargs", {"vllm_xargs": {"mine": 1}}),
    ],
)
def test_what_cannot_be_carried_over_finishes_on_its_own_profile(
    server: Server, prompt: list[int], reason: str, fields: dict[str, Any]
) -> None:
    streamed, told = rebuilding(server, prompt, **fields)
    assert (told["rebuilt"], told["not_rebuilt"]) == (0, {reason: 1})
    found = record(server, {"id": streamed.id})
    assert (found["rebuilt"], found["not_rebuilt"], found["outcome"]) == (0, reason, "success")
    assert found["profile"]["generation"] == default(server)["generation"] - 1
    if reason not in ("n", "structured_outputs"):  # of which no forced request has the log-probabilities
        expected = forced_logprobs(server, prompt, streamed.tokens, rope=START)
        assert streamed.logprobs == pytest.approx(expected, abs=NEAR)


def test_a_stop_string_may_straddle_the_change(server: Server, prompt: list[int], tokenizer: Any) -> None:
    (only,) = tokenizer("a").input_ids
    for included in (False, True):
        streamed, _ = rebuilding(
            server,
            prompt,
            tokens=2 * TOKENS,
            allowed_token_ids=[only],
            stop=["a" * TOKENS],
            include_stop_str_in_output=included,
        )
        assert (streamed.finish_reason, streamed.stop_reason) == ("stop", "a" * TOKENS)
        assert streamed.usage["completion_tokens"] == TOKENS
        assert streamed.text == ("a" * TOKENS if included else "")
        assert record(server, {"id": streamed.id})["rebuilt"] == 1
        change_profile(server, "finish")


def test_a_least_number_of_tokens_counts_from_the_start(
    server: Server, prompt: list[int], tokenizer: Any
) -> None:
    wanted, other = (tokenizer(letter).input_ids[0] for letter in "ab")
    streamed, _ = rebuilding(
        server,
        prompt,
        tokens=2 * TOKENS,
        min_tokens=TOKENS,
        stop_token_ids=[wanted],
        logit_bias={wanted: 100, other: 50},
    )
    assert streamed.tokens == [*([other] * TOKENS), wanted]
    assert (streamed.finish_reason, streamed.stop_reason) == ("stop", wanted)
    assert record(server, {"id": streamed.id})["rebuilt"] == 1


def test_an_answer_in_one_piece_is_whole(server: Server, prompt: list[int]) -> None:
    fields = {"max_tokens": 2 * TOKENS, "logprobs": 1, "return_token_ids": True}
    response, told = rebuilding_whole(server, prompt, **fields)
    assert told["rebuilt"] == record(server, response)["rebuilt"] == 1
    (choice,) = response["choices"]
    assert len(choice["token_ids"]) == len(choice["logprobs"]["token_logprobs"]) == 2 * TOKENS
    assert response["usage"]["completion_tokens"] == 2 * TOKENS


def _counts(server: Server) -> dict[str, float]:
    names = (
        "vllm:request_success_total",
        "vllm:time_to_first_token_seconds_count",
        "vllm:request_queue_time_seconds_count",
        "vllm:request_prompt_tokens_sum",
        "vllm:generation_tokens_total",
        "vllm:request_generation_tokens_sum",
        "ropeway_requests_total",
        "ropeway_ttft_seconds_count",
    )
    return {name: metric(server, name) for name in names}


def test_a_rebuilt_request_is_counted_once(server: Server, prompt: list[int]) -> None:
    before, waited = _counts(server), metric(server, "vllm:request_queue_time_seconds_sum")
    rebuilding(server, prompt)
    wait_until_idle(server)
    after = _counts(server)
    streams = after["ropeway_requests_total"] - before["ropeway_requests_total"]
    tokens = {"vllm:request_prompt_tokens_sum": len(prompt)}
    tokens |= dict.fromkeys(("vllm:generation_tokens_total", "vllm:request_generation_tokens_sum"), TOKENS)
    assert {name: after[name] - before[name] for name in after} == {
        name: streams * tokens.get(name, 1) for name in after
    }
    assert metric(server, "vllm:request_queue_time_seconds_sum") >= waited


def test_closing_a_rebuilt_stream_ends_its_request(server: Server, prompt: list[int]) -> None:
    with streaming(server, prompt, max_tokens=3000) as chunks:
        for streamed in chunks:
            if streamed.tokens:
                change_profile(server, "rebuild", **OTHER)
                break
    wait_until_idle(server)
    assert default(server)["running"] == {}
    assert record(server, {"id": streamed.id})["outcome"] == "aborted"


def test_a_score_pass_ends_on_the_old_profile_and_its_answer_starts_on_the_new_one(
    server: Server, tokenizer: Any
) -> None:
    long = tokenizer(f"{document(260, seed=77)}\n\nQuestion: Who hid the lighthouse key?").input_ids[-3900:]
    response, told = rebuilding_whole(server, long, qgpm=True, max_tokens=4)
    assert (told["rebuilt"], told["not_rebuilt"]) == (0, {})
    found = record(server, response)
    assert found["profile"]["generation"] == told["generation"]
    assert (found["mode"], found["outcome"], found["tokens"]["answer_cached"]) == ("qgpm", "success", 0)


@pytest.mark.parametrize("key", [None, "", "wrong", ADMIN_KEY + "x", ADMIN_KEY[:-1]])
def test_a_wrong_key_is_refused(server: Server, key: str | None) -> None:
    response = put_profile(server, {"running": "finish"}, key)
    assert response.status_code == 401
    assert response.json()["error"]["code"] == 401


def test_without_a_key_of_its_own_the_server_has_no_such_route(crowded: Server) -> None:
    response = put_profile(crowded, {"running": "finish"}, ADMIN_KEY, Authorization=f"Bearer {API_KEY}")
    assert response.status_code == 404
    assert response.json()["error"]["code"] == 404


def test_the_key_does_not_show_in_the_log(server: Server) -> None:
    put_profile(server, {"running": "finish"}, ADMIN_KEY)
    assert ADMIN_KEY not in server.log.read_text(errors="replace")


@pytest.mark.parametrize(
    ("body", "field"),
    [
        ([], "body"),
        ({}, "running"),
        ({"running": "stop"}, "running"),
        ({"running": ["finish"]}, "running"),
        ({"running": "finish", "bases": 5}, "bases"),
        ({"running": "finish", "base": 1}, "base"),
        ({"running": "finish", "base": True}, "base"),
        ({"running": "finish", "scaling": {"rope_type": "yarn", "factor": 0.5}}, "scaling.factor"),
        ({"running": "finish", "scaling": {"rope_type": "yarn", "factors": 2}}, "scaling.factors"),
        ({"running": "finish", "policy": "auto"}, "policy"),
        ({"running": "finish", "policy": "auto", "base": 5.0}, "policy"),
    ],
)
def test_a_bad_change_names_its_field(server: Server, body: Any, field: str) -> None:
    generation = default(server)["generation"]
    response = put_profile(server, body, ADMIN_KEY)
    assert response.status_code == 400, response.text
    error = response.json()["error"]
    assert error["param"] == field
    assert field in error["message"]
    assert "rope." not in error["message"]
    assert default(server)["generation"] == generation


@pytest.mark.long
def test_fifty_changes_during_eight_streams_leave_no_error_no_gap_and_no_leak(
    server: Server, tokenizer: Any
) -> None:
    generator = random.Random(3)
    ids = tokenizer(document(260, seed=9)).input_ids
    stopped = threading.Event()

    def serve(number: int) -> list[Any]:
        mine = random.Random(number)
        found = []
        while not stopped.is_set():
            start, length = mine.randrange(0, 300), mine.randrange(40, 900)
            prompt = ids[start : start + length]
            fields = mine.choice([{}, {}, {"qgpm": True}, {"qgpm": EVIDENCE}])
            if "qgpm" in fields:
                prompt = PROMPT
            count = mine.randrange(20, 120)
            with streaming(server, prompt, max_tokens=count, **fields) as chunks:
                (streamed,) = deque(chunks, maxlen=1)
            assert len(streamed.tokens) == len(streamed.logprobs) == count
            assert streamed.usage["completion_tokens"] == count
            found.append((prompt, fields, streamed))
        return found

    rebuilt = 0
    rules = [{}, OTHER, OWN, {"scaling": {"rope_type": "yarn", "factor": 4.0}}]
    with ThreadPoolExecutor(8) as pool:
        served = [pool.submit(serve, number) for number in range(8)]
        for _ in range(50):
            rebuilt += change_profile(server, "rebuild", **generator.choice(rules))["rebuilt"]
            stopped.wait(0.15)
        stopped.set()
        streams = [one for future in served for one in future.result()]
    assert rebuilt > 50
    wait_until_idle(server)
    assert default(server)["running"] == {}
    # Each stream's values come from the rules, in stretches; none from a mixture of them.
    for prompt, fields, streamed in generator.sample([s for s in streams if s[1] != {"qgpm": True}], 6):
        runs = [
            forced_logprobs(server, prompt, streamed.tokens, rope=rule or START, **fields) for rule in rules
        ]
        for index, value in enumerate(streamed.logprobs):
            assert min(abs(value - run[index]) for run in runs) < NEAR, index
