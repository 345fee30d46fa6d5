"""What the guard decides over HTTP, on a server whose own dial is 0."""

from typing import Any

import pytest

from server.child import Server
from tests.http.servers import DOCUMENT, PASSAGE, complete, metric, post, record, relevance
from tests.http.test_sources import PROMPT, TOLD

pytest_plugins = ("tests.http.fixtures",)

UNSURE = {"relevance": "heads", "guard": 1}
"""A random model's heads."""


def test_relevance_that_is_not_trusted_makes_the_answer_the_plain_one(server: Server) -> None:
    asked = {"logprobs": 1, "cache_salt": "unsure"}
    before = metric(server, "ropeway_guard_decisions_total", decision="plain")
    guarded = complete(server, PROMPT, qgpm=UNSURE, **asked)
    found = record(server, guarded)
    assert (found["mode"], found["reason"]) == ("plain", "guard")
    verdict = found["guard"]
    assert (verdict["decision"], verdict["dial"], verdict["asked"]) == ("plain", 1.0, 0.99)
    assert verdict["confidence"] < verdict["asked"]
    assert metric(server, "ropeway_guard_decisions_total", decision="plain") == before + 1
    plain = complete(server, PROMPT, qgpm=False, **asked)
    assert guarded["choices"][0]["logprobs"] == plain["choices"][0]["logprobs"]


def test_an_answer_that_turned_out_plain_finds_the_prefix_of_its_score_pass(server: Server) -> None:
    found = record(server, complete(server, PROMPT, qgpm=UNSURE, cache_salt="prefix"))
    assert found["tokens"]["score_cached"] == 0
    assert found["tokens"]["answer_cached"] > 0.9 * found["tokens"]["prompt"]


def test_a_dial_of_0_modulates_by_whatever_the_relevance_is(server: Server) -> None:
    for qgpm in ({"relevance": "heads", "guard": 0}, {"relevance": "heads"}):
        found = record(server, complete(server, PROMPT, qgpm=qgpm))
        assert (found["mode"], found["guard"]["decision"], found["guard"]["asked"]) == ("qgpm", "full", 0)


def test_words_that_point_to_one_sentence_are_trusted(server: Server) -> None:
    found = record(server, complete(server, PROMPT, qgpm={"relevance": "lexical", "guard": 0.5}))
    assert (found["mode"], found["guard"]["decision"]) == ("qgpm", "full")
    assert found["guard"]["confidence"] > found["guard"]["asked"]


def test_evidence_that_the_caller_gave_is_not_doubted(server: Server) -> None:
    found = record(server, complete(server, PROMPT, qgpm={"evidence": [PASSAGE], "guard": 1}))
    assert found["mode"] == "evidence"
    assert (found["guard"]["decision"], found["guard"]["signs"]) == ("full", None)


def test_as_many_sentences_are_kept_as_stand_out(server: Server) -> None:
    told = " ".join(f"The keeper hid an iron key in place {number}." for number in range(7))
    prompt = f"{DOCUMENT} {told}\n\nQuestion: Where did the keeper hide an iron key?"
    kept = {}
    for guard in (0, 0.5):
        qgpm = {"relevance": "lexical", "guard": guard, "t_sharp": 0}
        rows = relevance(server, prompt=prompt, qgpm=qgpm)["sentences"]
        kept[guard] = [row["text"].strip() for row in rows if row["sharp"] == 1]
    assert kept[0.5] == told.replace(". ", ".|").split("|")
    assert len(kept[0]) < 7


def test_the_score_pass_alone_tells_the_verdict_too(server: Server) -> None:
    told = relevance(server, prompt=PROMPT, qgpm=UNSURE)
    assert told["guard"]["decision"] == "plain"
    assert told["reason"] == "guard"
    assert set(told["guard"]["signs"]) > {"margin", "prominence", "agreement"}
    nothing = relevance(server, prompt=f"{TOLD}\n\nQuestion: Xylophones?", qgpm={"relevance": "lexical"})
    assert "guard" not in nothing


@pytest.mark.parametrize("value", [-0.1, 1.1, "0.5", True])
def test_a_dial_out_of_range_is_refused_by_name(server: Server, value: Any) -> None:
    response = post(server, "/v1/completions", prompt=PROMPT, qgpm={"guard": value})
    assert response.status_code == 400
    assert response.json()["error"]["param"] == "qgpm.guard"
