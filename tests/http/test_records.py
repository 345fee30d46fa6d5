"""`GET /v1/requests/{id}`: what was done for a request; and what the log does not tell."""

import math
from typing import Any

import pytest

from server.child import Server
from server.request_record import KEPT, PromptRecord, RecordStore
from tests.http.servers import (
    API_KEY,
    DOCUMENT,
    PASSAGE,
    PROMPT,
    QUESTION,
    chat,
    complete,
    post,
    record,
    relevance,
)
from tests.support.prose import document

pytest_plugins = ("tests.http.fixtures",)

FIELDS = {
    *("mode", "sentences", "protected_prefix", "top", "seconds", "relevance", "memo"),
    *("guard", "profile", "rebuilt", "tokens", "outcome"),
}


@pytest.mark.parametrize("ask", [chat, complete])
@pytest.mark.parametrize(
    ("qgpm", "mode", "stages"),
    [
        (False, "plain", {"answer", "first_token", "total"}),
        (True, "qgpm", {"locate", "score", "collect", "maps", "answer", "first_token", "total"}),
        ({"evidence": [PASSAGE]}, "evidence", {"locate", "maps", "answer", "first_token", "total"}),
    ],
)
def test_a_record_tells_what_was_done(
    server: Server, ask: Any, qgpm: Any, mode: str, stages: set[str]
) -> None:
    response = ask(server, qgpm=qgpm, cache_salt=f"record {ask.__name__}")
    found = record(server, response)
    assert set(found) == {"id", *FIELDS}
    assert (found["id"], found["mode"], found["outcome"]) == (response["id"], mode, "success")
    assert found["memo"] is False
    assert set(found["tokens"]) == {"prompt", "score_cached", "answer_cached", "output"}
    assert found["tokens"]["prompt"] == response["usage"]["prompt_tokens"]
    assert found["tokens"]["output"] == response["usage"]["completion_tokens"] == 4
    assert (found["tokens"]["score_cached"] is not None) == (mode == "qgpm")
    seconds = found["seconds"]
    assert set(seconds) == stages
    assert 0 < seconds["first_token"] <= seconds["total"] < 60
    assert all(value > 0 for value in seconds.values())
    assert seconds.get("collect", 0) <= seconds.get("score", 0)
    # The stages follow each other, and collecting is a part of the score pass.
    following = sum(seconds.get(stage, 0) for stage in ("locate", "score", "maps", "answer"))
    assert following <= seconds["first_token"] + 0.005


@pytest.mark.parametrize("stream", [False, True])
def test_a_stream_has_the_same_record(server: Server, stream: bool) -> None:
    response = post(
        server, "/v1/completions", prompt=PROMPT, qgpm=True, stream=stream, max_tokens=6, ignore_eos=True
    )
    name = response.text.partition('"id":"')[2].partition('"')[0]
    found = record(server, {"id": name})
    assert (found["mode"], found["outcome"], found["tokens"]["output"]) == ("qgpm", "success", 6)
    assert 0 < found["seconds"]["first_token"] <= found["seconds"]["total"]


def test_the_ten_most_relevant_sentences_come_in_order(server: Server) -> None:
    found = record(server, complete(server, qgpm=True))
    scored = relevance(server, prompt=PROMPT)
    assert found["sentences"] == len(scored["sentences"]) == 24
    assert [row["rank"] for row in found["top"]] == list(range(10))
    best = sorted(scored["sentences"], key=lambda row: row["rank"])[:10]
    for row, expected in zip(found["top"], best, strict=True):
        assert set(row) == {"start", "end", "rank", "z", "broad", "sharp"}
        assert (row["start"], row["end"]) == (expected["start"], expected["end"])
        assert row["z"] == pytest.approx(expected["z"], abs=1e-3)
    assert sorted((row["z"] for row in found["top"]), reverse=True) == [row["z"] for row in found["top"]]
    assert found["protected_prefix"] == scored["protected_prefix"]


def test_relevance_gives_every_sentence_with_its_text(server: Server) -> None:
    scored = relevance(server, prompt=PROMPT)
    rows = scored["sentences"]
    names = {"start", "end", "start_char", "end_char", "text", "rank", "z", "broad", "sharp"}
    assert all(set(row) == names for row in rows)
    assert "".join(row["text"] for row in rows).strip() == DOCUMENT
    assert sorted(row["rank"] for row in rows) == list(range(24))
    assert all(PROMPT[row["start_char"] : row["end_char"]] == row["text"] for row in rows)
    assert math.isclose(sum(row["z"] for row in rows), 0, abs_tol=1e-6)
    assert min(row["sharp"] for row in rows) == pytest.approx(0.3)
    assert max(row["sharp"] for row in rows) == pytest.approx(1)


def test_scores_order_the_evidence(server: Server) -> None:
    sentences = [row["text"].strip() for row in relevance(server, prompt=PROMPT)["sentences"]]
    passages: list[Any] = [{"text": sentences[3], "score": 0.2}, {"text": sentences[17], "score": 0.9}]
    found = record(server, complete(server, qgpm={"evidence": passages}))
    rows = relevance(server, prompt=PROMPT)["sentences"]
    assert [row["start"] for row in found["top"][:2]] == [rows[17]["start"], rows[3]["start"]]


def test_a_body_of_several_prompts_has_a_record_each(server: Server) -> None:
    other = f"{document(9, seed=31)}\n\n{QUESTION}"
    response = complete(
        server, [PROMPT, other, "One sentence.\n\n" + QUESTION], qgpm=True, n=2, temperature=1
    )
    assert len(response["choices"]) == 6
    found = record(server, response)
    assert set(found) == {"id", "prompts"}
    first, second, third = found["prompts"]
    assert [set(one) for one in (first, second)] == [FIELDS, FIELDS]
    assert [one["mode"] for one in found["prompts"]] == ["qgpm", "qgpm", "plain"]
    assert [one["sentences"] for one in (first, second)] == [24, 9]
    assert third["reason"] == "too_few_sentences"
    assert [one["tokens"]["output"] for one in found["prompts"]] == [8, 8, 8]
    assert sum(one["tokens"]["prompt"] for one in found["prompts"]) == response["usage"]["prompt_tokens"]


def test_prompts_of_token_ids_are_located_by_their_text(server: Server) -> None:
    tokens = post(server, "/tokenize", prompt=PROMPT).json()["tokens"]
    found = record(server, complete(server, tokens, qgpm=True))
    by_text = record(server, complete(server, qgpm=True))
    assert (found["mode"], found["sentences"]) == ("qgpm", 24)
    assert [row["start"] for row in found["top"]] == [row["start"] for row in by_text["top"]]


def test_usage_counts_as_cached_only_what_no_pass_computed(server: Server) -> None:
    """On a cold cache the answer pass finds what the score pass left, and the user is told of none of it."""
    sentences = [row["text"].strip() for row in relevance(server, prompt=PROMPT)["sentences"]]
    cold = complete(server, cache_salt="cold", qgpm=True)
    # Another context, so that there is another score pass.
    warm = complete(server, cache_salt="cold", qgpm={"context": DOCUMENT[: len(DOCUMENT) // 2]})
    first, second = record(server, cold)["tokens"], record(server, warm)["tokens"]
    assert first["score_cached"] == 0
    assert _cached(cold) == 0
    assert second["score_cached"] > 0
    assert _cached(warm) == min(second["score_cached"], second["answer_cached"])
    # Where only the last sentences are relevant, nearly all of the context keeps its places.
    late = {"evidence": sentences[-2:], "k_broad": 2, "t_broad": 0, "k_sharp": 1, "t_sharp": 0}
    again = complete(server, cache_salt="cold", qgpm=late)
    assert _cached(again) == record(server, again)["tokens"]["answer_cached"] > 0


def test_other_salts_share_nothing(server: Server) -> None:
    complete(server, cache_salt="one", qgpm=True)
    assert _cached(complete(server, cache_salt="two", qgpm=True)) == 0
    assert _cached(complete(server, cache_salt="one", qgpm=True)) > 0


def test_the_last_thousand_requests_are_kept() -> None:
    store = RecordStore()
    for number in range(KEPT + 5):
        store.add(f"id-{number}", PromptRecord(0.0, 1))
    assert KEPT == 1000
    assert store.describe("id-4") is None
    assert store.describe("id-5") is not None


def test_a_repeated_id_has_the_record_of_the_last_request() -> None:
    store = RecordStore()
    for tokens in (1, 2, 3):
        store.add("id", PromptRecord(0.0, tokens))
    store.add("id", PromptRecord(0.0, 4), first=False)
    described = store.describe("id")
    assert described is not None
    assert [prompt["tokens"]["prompt"] for prompt in described["prompts"]] == [3, 4]


def test_an_id_that_the_caller_chose_finds_the_last_record(server: Server) -> None:
    for qgpm in (True, False):
        answer = complete(server, request_id="team/7", qgpm=qgpm)
    assert answer["id"] == "cmpl-team/7"
    assert record(server, answer)["mode"] == "plain"


def test_the_plan_of_the_model_can_be_read(server: Server) -> None:
    plan = server.get("/v1/positional").json()
    assert [layer["map"] for layer in plan["layers"]] == ["broad", "broad", "sharp", "sharp"]
    assert plan["head_profile"]["heads"][0] == {"layer": 1, "head": 0, "mrr": 0.5}
    assert plan["defaults"]["qgpm"] == "off"
    assert plan["defaults"]["k_broad"] == 12


def test_the_log_tells_no_prompt_and_no_key(crowded: Server) -> None:
    marked = f"The zanzibarquux stood open. {document(5, seed=41)}\n\nQuestion: Who saw the plinthowitz?"
    complete(crowded, marked, qgpm={"question": "Question: Who saw the plinthowitz?"})
    complete(crowded, marked, qgpm={"evidence": ["The zanzibarquux stood open."]})
    chat(crowded, [{"role": "user", "content": marked}], qgpm=True)
    bad: list[Any] = [
        {"question": "sylvanacht"},
        {"evidence": ["sylvanacht"]},
        {"sylvanacht": 1},
        "sylvanacht",
    ]
    for qgpm in bad:
        for stream in (False, True):
            response = post(crowded, "/v1/completions", prompt=marked, qgpm=qgpm, stream=stream)
            assert response.status_code == 400
    log = crowded.log.read_text(errors="replace")
    assert "/v1/completions" in log
    for secret in ("zanzibarquux", "plinthowitz", "sylvanacht", API_KEY):
        assert secret not in log


def _cached(response: dict[str, Any]) -> int:
    count: int = response["usage"]["prompt_tokens_details"]["cached_tokens"]
    return count
