"""The same question again needs no score pass, until something changes what it would read."""

from itertools import count
from typing import Any

import httpx
import pytest

from server.child import Server
from tests.http.servers import PROMPT, chat, complete, metric, record, wait_until_idle

pytest_plugins = ("tests.http.fixtures",)

_salts = count()


def _ask(server: Server, salt: str, **fields: Any) -> dict[str, Any]:
    return complete(server, **{"cache_salt": salt, "qgpm": True, "logprobs": 1, **fields})


def _remembered(server: Server, salt: str, **fields: Any) -> bool:
    """Whether the relevance of a question was remembered; its record and the metrics must agree."""
    scored = metric(server, "ropeway_stage_seconds_count", stage="score")
    found = record(server, _ask(server, salt, **fields))
    passes = metric(server, "ropeway_stage_seconds_count", stage="score") - scored
    assert found["mode"] == "qgpm"
    assert passes == (not found["memo"])
    memo: bool = found["memo"]
    return memo


@pytest.fixture
def salt() -> str:
    """A salt of which nothing is remembered."""
    return f"memo {next(_salts)}"


def test_the_same_question_again_needs_no_score_pass(server: Server, salt: str) -> None:
    hits, misses = (metric(server, f"ropeway_memo_{name}_total") for name in ("hits", "misses"))
    first, again = _ask(server, salt), _ask(server, salt)
    told, retold = record(server, first), record(server, again)
    assert (told["memo"], retold["memo"]) == (False, True)
    assert set(retold["seconds"]) == {"locate", "maps", "answer", "first_token", "total"}
    assert retold["tokens"]["score_cached"] is None
    assert metric(server, "ropeway_memo_hits_total") == hits + 1
    assert metric(server, "ropeway_memo_misses_total") == misses + 1
    assert (retold["top"], retold["protected_prefix"]) == (told["top"], told["protected_prefix"])
    one, other = (response["choices"][0] for response in (first, again))
    assert other["logprobs"]["token_logprobs"] == pytest.approx(one["logprobs"]["token_logprobs"], abs=1e-3)
    assert other["text"] == one["text"]


def test_usage_of_a_remembered_question_counts_the_answer_pass_s_own_hits(server: Server, salt: str) -> None:
    _ask(server, salt)
    again = _ask(server, salt)
    cached = again["usage"]["prompt_tokens_details"]["cached_tokens"]
    assert cached == record(server, again)["tokens"]["answer_cached"] > 0


def test_other_settings_share_the_relevance(server: Server, salt: str) -> None:
    assert not _remembered(server, salt)
    assert _remembered(server, salt, qgpm={"k_sharp": 2, "score_low": 0.1})
    assert _remembered(server, salt, n=2, temperature=1)


def test_chat_and_completion_of_other_tokens_share_nothing(server: Server, salt: str) -> None:
    _ask(server, salt)
    told = chat(server, qgpm=True, cache_salt=salt)
    assert record(server, told)["memo"] is False
    assert record(server, chat(server, qgpm=True, cache_salt=salt))["memo"] is True


@pytest.mark.parametrize(
    "other",
    [
        {"cache_salt": "memo of another tenant"},
        {"prompt": PROMPT.replace("lighthouse", "light-house")},
        {"qgpm": {"question": "Who hid the lighthouse key?"}},
        {"qgpm": {"context": PROMPT[:600]}},
        {"rope": {"base": 20000}},
    ],
    ids=lambda other: next(iter(other)),
)
def test_another_question_has_a_score_pass(server: Server, salt: str, other: dict[str, Any]) -> None:
    assert not _remembered(server, salt)
    assert not _remembered(server, salt, **other)


def test_no_salt_is_no_tenant_s_salt(server: Server, salt: str) -> None:
    fresh = f"{salt} stood on the door. {PROMPT}"
    assert record(server, complete(server, fresh, qgpm=True))["memo"] is False
    assert not _remembered(server, salt, prompt=fresh)
    assert record(server, complete(server, fresh, qgpm=True))["memo"] is True


@pytest.mark.parametrize(
    ("path", "body", "cause"),
    [
        ("/reset_prefix_cache", None, "reset"),
        ("/collective_rpc", {"method": "reload_weights"}, "weights"),
    ],
)
def test_what_makes_relevance_stale_forgets_it(
    server: Server, salt: str, path: str, body: Any, cause: str
) -> None:
    wait_until_idle(server)
    counted = metric(server, "ropeway_invalidations_total", cause=cause)
    _ask(server, salt)
    assert _remembered(server, salt)
    assert metric(server, "ropeway_memo_entries") > 0
    assert metric(server, "ropeway_memo_bytes") > 0
    assert httpx.post(server.url + path, json=body, timeout=60).status_code == 200
    assert metric(server, "ropeway_memo_entries") == metric(server, "ropeway_memo_bytes") == 0
    assert metric(server, "ropeway_invalidations_total", cause=cause) == counted + 1
    assert not _remembered(server, salt)
    assert _remembered(server, salt)


def test_reading_the_workers_forgets_nothing(server: Server, salt: str) -> None:
    _ask(server, salt)
    body = {"method": "describe_positions"}
    assert server.post("/collective_rpc", body).status_code == 200
    assert _remembered(server, salt)
