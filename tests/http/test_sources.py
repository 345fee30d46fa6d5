"""Relevance from other sources than heads, asked over HTTP."""

from typing import Any

import pytest

from server.child import Server
from tests.http.servers import DOCUMENT, PASSAGE, QUESTION, complete, metric, post, record, relevance
from tests.support.prose import document

pytest_plugins = ("tests.http.fixtures",)

KEY = "The lighthouse keeper hid an iron key under the third stair."
TOLD = f"{DOCUMENT} {KEY} {document(6, seed=77)}"
PROMPT = f"{TOLD}\n\n{QUESTION}"


def test_words_alone_cost_one_prefill(server: Server) -> None:
    before = metric(server, "ropeway_stage_seconds_count", stage="score")
    found = record(server, complete(server, PROMPT, qgpm={"relevance": "lexical"}, cache_salt="words"))
    assert (found["mode"], found["sentences"], found["memo"]) == ("qgpm", 31, False)
    assert "score" not in found["seconds"]
    assert found["tokens"]["score_cached"] is None
    assert metric(server, "ropeway_stage_seconds_count", stage="score") == before
    told = found["relevance"]
    assert (told["name"], [source["name"] for source in told["sources"]]) == ("lexical", ["lexical"])
    assert 0 < told["sources"][0]["seconds"] < found["seconds"]["first_token"]


def test_the_sentence_that_shares_the_questions_words_is_first(server: Server) -> None:
    scored = relevance(server, prompt=PROMPT, qgpm={"relevance": "lexical"})
    best = min(scored["sentences"], key=lambda row: row["rank"])
    assert best["text"].strip() == KEY
    assert scored["relevance"]["name"] == "lexical"
    assert scored["seconds"] == {}
    found = record(server, complete(server, PROMPT, qgpm={"relevance": "lexical"}))
    assert found["top"][0]["start"] == best["start"]


def test_several_sources_are_fused_and_each_tells_what_it_took(server: Server) -> None:
    qgpm = {"relevance": {"heads": 1, "lexical": 0.5}, "fusion": "sum"}
    found = record(server, complete(server, PROMPT, qgpm=qgpm, cache_salt="fused"))
    told = found["relevance"]
    assert (told["name"], told["fusion"]) == ("fused", "sum")
    heads, lexical = told["sources"]
    assert (heads["name"], heads["weight"], heads["cached"]) == ("heads", 1, 0)
    assert (lexical["name"], lexical["weight"]) == ("lexical", 0.5)
    assert found["seconds"]["score"] == heads["seconds"]
    # The same question again: the heads' part is remembered, whatever it is fused with.
    again = record(server, complete(server, PROMPT, qgpm={"relevance": "heads"}, cache_salt="fused"))
    assert again["memo"] is True
    assert again["relevance"]["sources"][0]["memo"] is True


def test_a_fusion_ranks_by_the_weighted_sum(server: Server) -> None:
    alone = {
        name: {row["start"]: row["z"] for row in relevance(server, prompt=PROMPT, qgpm=qgpm)["sentences"]}
        for name, qgpm in (("heads", {"relevance": "heads"}), ("lexical", {"relevance": ["lexical"]}))
    }
    fused = relevance(server, prompt=PROMPT, qgpm={"relevance": {"heads": 1, "lexical": 2}})["sentences"]
    expected = {start: z + 2 * alone["lexical"][start] for start, z in alone["heads"].items()}
    ratios = [row["z"] / expected[row["start"]] for row in fused]
    assert max(ratios) == pytest.approx(min(ratios), rel=0.05)


def test_evidence_can_be_one_of_several(server: Server) -> None:
    qgpm = {"evidence": [PASSAGE], "relevance": ["caller", "lexical"]}
    found = record(server, complete(server, PROMPT, qgpm=qgpm))
    assert found["mode"] == "evidence"
    assert [source["name"] for source in found["relevance"]["sources"]] == ["caller", "lexical"]


def test_a_question_of_other_words_is_answered_plainly(server: Server) -> None:
    prompt = f"{TOLD}\n\nQuestion: Xylophones?"
    found = record(server, complete(server, prompt, qgpm={"relevance": "lexical"}))
    assert (found["mode"], found["reason"]) == ("plain", "equal_relevance")
    assert found["relevance"]["sources"][0]["shared_terms"] == 0


def test_a_model_without_a_head_profile_can_rank_by_words(headless: Server) -> None:
    found = record(headless, complete(headless, PROMPT, qgpm={"relevance": "lexical"}))
    assert (found["mode"], found["relevance"]["name"]) == ("qgpm", "lexical")


@pytest.mark.parametrize(
    ("value", "parameter"),
    [
        ({"relevance": "embedding"}, "qgpm.relevance"),
        ({"relevance": "nothing"}, "qgpm.relevance"),
        ({"relevance": "caller"}, "qgpm.relevance"),
        ({"relevance": ["lexical"], "fusion": "product"}, "qgpm.fusion"),
        ({"neighbours": 99}, "qgpm.neighbours"),
    ],
)
def test_what_cannot_be_asked_is_refused_by_name(server: Server, value: Any, parameter: str) -> None:
    response = post(server, "/v1/completions", prompt=PROMPT, qgpm=value)
    assert response.status_code == 400
    assert response.json()["error"]["param"] == parameter


def test_neighbours_of_a_relevant_sentence_are_kept_with_it(server: Server) -> None:
    qgpm = {"relevance": "lexical", "k_broad": 2, "k_sharp": 1, "t_broad": 0, "t_sharp": 0}
    rows = {
        count: relevance(server, prompt=PROMPT, qgpm={**qgpm, "neighbours": count})["sentences"]
        for count in (0, 1)
    }
    (first,) = [index for index, row in enumerate(rows[0]) if row["sharp"] == 1]
    assert [index for index, row in enumerate(rows[1]) if row["sharp"] == 1] == [first - 1, first, first + 1]


def test_a_centre_grows_to_what_looks_like_evidence(server: Server) -> None:
    values = " ".join(
        f"The lighthouse key number {word} is lost." for word in ("one", "two", "three", "four")
    )
    prompt = f"{DOCUMENT} {values}\n\nQuestion: Which lighthouse key is lost?"
    qgpm = {"relevance": "lexical", "k_broad": 3, "k_sharp": 2, "t_broad": 0, "t_sharp": 0}
    kept = [
        sum(row["sharp"] == 1 for row in relevance(server, prompt=prompt, qgpm={**qgpm, **more})["sentences"])
        for more in ({}, {"adaptive_k": True})
    ]
    assert kept == [2, 4]
