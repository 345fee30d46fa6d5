from typing import Any

import pytest

from loadtests.load.scenarios import SCENARIOS, Scenario, Writer
from loadtests.load.target import Target


def _writer(nonce: str = "n1", window: int | None = 8192) -> Writer:
    target = Target("http://h", "m", None, "/v1/chat/completions", {}, window, 12.0, no_fields=None)
    return Writer(target, nonce, tokens=1000, max_tokens=16)


def _scenario(name: str) -> Scenario:
    return next(scenario for scenario in SCENARIOS if scenario.name == name)


def _bodies(name: str, count: int, writer: Writer | None = None) -> list[dict[str, Any]]:
    return [(writer or _writer()).ask(_scenario(name), "a", number).body for number in range(count)]


def _prompt(body: dict[str, Any]) -> str:
    text: str = body["messages"][0]["content"]
    return text


@pytest.mark.parametrize("name", ["plain", "qgpm_cold", "qgpm_evidence", "mixed", "long_short"])
def test_no_two_requests_share_a_beginning(name: str) -> None:
    assert len({_prompt(body)[:40] for body in _bodies(name, 12)}) == 12


def test_another_run_has_other_prompts_and_the_same_nonce_the_same() -> None:
    first, again, other = (_bodies("plain", 3, _writer(nonce)) for nonce in ("n1", "n1", "n2"))
    assert first == again
    assert not {_prompt(body)[:12] for body in first} & {_prompt(body)[:12] for body in other}


def test_arrivals_of_one_run_share_no_document() -> None:
    scenario = _scenario("qgpm_same_document")
    first, second = (_prompt(_writer().ask(scenario, run, 0).body) for run in ("a", "b"))
    assert first[:40] != second[:40]


def test_new_questions_are_asked_of_the_same_documents() -> None:
    prompts = [_prompt(body) for body in _bodies("qgpm_same_document", 10)]
    assert len(set(prompts)) == 10
    assert len({prompt.partition("Question:")[0] for prompt in prompts}) == 2


def test_mixed_requests_are_half_plain_and_half_modulated() -> None:
    bodies = _bodies("mixed", 10)
    assert [body.get("qgpm", False) for body in bodies].count({"relevance": "heads", "guard": 0}) == 5


def test_evidence_stands_in_the_document() -> None:
    for body in _bodies("qgpm_evidence", 5):
        passages = body["qgpm"]["evidence"]
        assert len(passages) == 2
        assert all(passage in _prompt(body).partition("Question:")[0] for passage in passages)


def test_many_profiles_ask_by_several_bases_and_scalings() -> None:
    rules = [body.get("rope") for body in _bodies("many_profiles", 9)]
    assert rules.count(None) == 1
    assert len({rule["base"] for rule in rules if rule and "base" in rule}) == 4
    assert {rule["scaling"]["rope_type"] for rule in rules if rule and "scaling" in rule} == {
        "linear",
        "dynamic",
        "yarn",
    }


def test_long_prompts_come_among_short_ones() -> None:
    lengths = [len(_prompt(body)) for body in _bodies("long_short", 8)]
    assert min(lengths[0], lengths[4]) > 8 * max(lengths[1:4])


def test_documents_are_as_long_as_asked_and_never_longer_than_the_window() -> None:
    assert _writer().sentences(1.0) == round(1000 / 12)
    assert 12 * _writer(window=512).sentences(4.0) < 512 - 16
    assert _writer(window=None).sentences(4.0) == round(4000 / 12)
