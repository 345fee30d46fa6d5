"""What a request may ask for at most, and how it is told."""

from collections.abc import Callable
from dataclasses import replace

import pytest
from fastapi import FastAPI
from fastapi.testclient import TestClient

from cache.head_profile import Calibration, Head, HeadProfile
from positional.qgpm import PACKAGE_DEFAULTS
from server.fields import QGPMFields
from server.flags import parser
from server.limit_response import count_limits
from server.limits import NO_LIMITS, Limit, LimitError, Limits
from server.locate import Source, locate
from server.offsets import TokenizedPrompt
from server.preparation import Abilities, PlainReason, Preparation, prepare
from server.score_passes import ScorePasses

SMALL = Limits(
    body_bytes=5,
    document_characters=5,
    document_tokens=5,
    sentences=5,
    question_tokens=5,
    evidence_passages=5,
    evidence_characters=50,
    score_passes=5,
)


@pytest.mark.parametrize(
    ("check", "limit", "field", "flag", "value"),
    [
        (lambda: SMALL.check_evidence(6, 1), "evidence", "evidence", "evidence-passages", "6 passages"),
        (lambda: SMALL.check_evidence(1, 51), "evidence", "evidence", "evidence-characters", "51 characters"),
        (lambda: SMALL.check_document(6), "document", "context", "document-characters", "6 characters"),
        (lambda: SMALL.check_sentences(6, 1), "document", "context", "sentences", "6 sentences"),
        (lambda: SMALL.check_sentences(1, 6), "document", "context", "document-tokens", "6 tokens"),
        (lambda: SMALL.check_question(6), "question", "question", "question-tokens", "6 tokens"),
    ],
)
def test_an_excess_names_field_limit_and_value(
    check: Callable[[], None], limit: Limit, field: str, flag: str, value: str
) -> None:
    with pytest.raises(LimitError) as refused:
        check()
    error = refused.value
    assert (error.limit, error.parameter, error.status) == (limit, f"qgpm.{field}", 400)
    most = 50 if flag == "evidence-characters" else 5
    assert str(error) == f"qgpm.{field} has {value}, but this server takes {most} (--max-{flag})"


def test_just_the_limit_passes_and_zero_is_none() -> None:
    SMALL.check_evidence(5, 50)
    SMALL.check_document(5)
    SMALL.check_sentences(5, 5)
    SMALL.check_question(5)
    NO_LIMITS.check_evidence(10**9, 10**9)
    NO_LIMITS.check_document(10**9)


def test_every_limit_has_a_flag_with_its_default() -> None:
    args = parser().parse_args(["model"])
    assert Limits.of(args) == Limits()
    given = parser().parse_args(["model", "--max-body-bytes", "1M", "--max-score-passes", "0"])
    assert (Limits.of(given).body_bytes, Limits.of(given).score_passes) == (1 << 20, 0)


def test_a_negative_limit_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        parser().parse_args(["model", "--max-sentences", "-1"])
    assert "--max-sentences" in capsys.readouterr().err


def _prompt(text: str) -> TokenizedPrompt:
    """One token a character."""
    return TokenizedPrompt(
        tuple(map(ord, text)), text, tuple(range(len(text))), tuple(range(1, len(text) + 1))
    )


def test_a_document_that_is_too_long_is_not_split() -> None:
    with pytest.raises(LimitError, match=r"qgpm.context has 12 characters"):
        locate(_prompt("One. Two. \n\nWhy?"), Source(), "Why?", None, 1, SMALL)
    assert locate(_prompt("One. Two. \n\nWhy?"), Source(), "Why?", None, 1).question_tokens == 4


def test_a_question_before_the_document_asks_with_no_token_of_its_own() -> None:
    located = locate(_prompt("Why? One. Two."), Source(), "Why?", "One. Two.", 2)
    assert (located.question_tokens, len(located.query_rows)) == (0, 2)


class _Letters:
    """A tokenizer of one token a character."""

    all_special_ids: tuple[int, ...] = ()

    def decode(self, ids: list[int], skip_special_tokens: bool) -> str:
        return "".join(map(chr, ids))


_HEADS = HeadProfile(
    format=4,
    model="model",
    fingerprint="0" * 64,
    heads=(Head(0, 0, 0.5),),
    query_tail=1,
    defaults=PACKAGE_DEFAULTS,
    calibration=Calibration(1, 0, (100,), "none", "float32", 0.5),
    tuning=None,
    relevance=None,
    guard=None,
)


def _prepare(value: object, limits: Limits, document: str = "One. Two.") -> Preparation | PlainReason:
    ids = [ord(letter) for letter in f"{document}\n\nWhy is that so?"]
    prompt = {"type": "token", "prompt_token_ids": ids}
    fields = QGPMFields.parse(value, PACKAGE_DEFAULTS, enabled_by_default=True)
    abilities = Abilities(True, _HEADS, True, ablations=False, limits=limits)
    return prepare(prompt, fields, Source(), abilities, _Letters())


def test_a_question_is_limited_where_heads_are_asked_about_it() -> None:
    limits = replace(NO_LIMITS, question_tokens=5)
    with pytest.raises(LimitError, match=r"qgpm.question has 15 tokens"):
        _prepare(True, limits)
    evidence = _prepare({"evidence": ["Two."]}, limits)
    assert isinstance(evidence, Preparation)
    assert not evidence.asks_heads
    alone = _prepare(True, limits, document="One.")
    assert isinstance(alone, Preparation)
    assert not alone.asks_heads


def test_who_did_not_ask_is_answered_plainly_with_the_limit_as_the_reason() -> None:
    limits = replace(NO_LIMITS, sentences=1)
    with pytest.raises(LimitError):
        _prepare(True, limits)
    found = _prepare(None, limits)
    assert isinstance(found, PlainReason)
    assert found.reason == "qgpm.context has 2 sentences, but this server takes 1 (--max-sentences)"


def test_a_limit_is_counted_and_answered_in_openai_s_shape() -> None:
    app, counted = FastAPI(), list[Limit]()
    count_limits(app, counted.append)

    @app.get("/400")
    def too_much() -> None:
        SMALL.check_question(6)

    @app.get("/429")
    def too_often() -> None:
        passes = ScorePasses(1)
        passes.enter(None)
        passes.enter(None)

    client = TestClient(app)
    refused = client.get("/400")
    assert refused.status_code == 400
    assert refused.json()["error"] | {"message": ""} == {
        "message": "",
        "type": "BadRequestError",
        "param": "qgpm.question",
        "code": 400,
    }
    waits = client.get("/429")
    assert (waits.status_code, waits.headers["retry-after"]) == (429, "1")
    assert waits.json()["error"]["type"] == "TooManyRequestsError"
    assert counted == ["question", "score_passes"]
