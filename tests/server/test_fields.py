from typing import Any

import pytest

from positional.qgpm import PACKAGE_DEFAULTS
from positional.sources.fusion import Choice
from server.fields import FieldError, QGPMFields
from server.relevance_choice import CALLER, HEADS, Weights


def parse(value: object) -> QGPMFields:
    return QGPMFields.parse(value, PACKAGE_DEFAULTS)


def test_true_and_false_are_the_requests_own_word() -> None:
    for server_default in (True, False):
        assert QGPMFields.parse(True, PACKAGE_DEFAULTS, server_default) == QGPMFields(True, asked=True)
        assert QGPMFields.parse(False, PACKAGE_DEFAULTS, server_default) == QGPMFields(False, asked=True)


@pytest.mark.parametrize("server_default", [True, False])
def test_null_leaves_the_choice_to_the_server(server_default: bool) -> None:
    assert QGPMFields.parse(None, PACKAGE_DEFAULTS, server_default) == QGPMFields(server_default, asked=False)


def test_an_object_switches_qgpm_on() -> None:
    fields = parse({})
    assert fields.enabled
    assert fields.asked
    assert fields.config(PACKAGE_DEFAULTS) == PACKAGE_DEFAULTS


def test_null_inside_the_object_means_the_default() -> None:
    sources = ("relevance", "fusion", "neighbours", "adaptive_k")
    names = ["question", "context", "evidence", "ablation", *sources, *PACKAGE_DEFAULTS.__dataclass_fields__]
    assert parse(dict.fromkeys(names)) == parse({})


def test_all_fields_are_read() -> None:
    settings = {
        "k_broad": 9,
        "t_broad": 0,
        "k_sharp": 3,
        "t_sharp": 0.25,
        "score_low": 0,
        "stride_floor": 1,
        "anchor_ratio": 0.2,
        "gate_width": 2,
    }
    evidence = ["one", {"text": "two", "score": -1}, {"text": "three"}, {"text": "four", "score": None}]
    texts = {"question": "Q?", "context": "C. D.", "evidence": evidence}
    fields = parse({**texts, **settings, "ablation": "one_map"})
    assert (fields.question, fields.context) == ("Q?", "C. D.")
    assert fields.evidence == (("one", None), ("two", -1.0), ("three", None), ("four", None))
    assert (fields.overrides, fields.ablation) == (settings, "one_map")
    config = fields.config(PACKAGE_DEFAULTS)
    assert {name: getattr(config, name) for name in settings} == settings


@pytest.mark.parametrize(
    ("value", "parameter", "limit"),
    [
        (1, "qgpm", "true, false, null or an object"),
        ("on", "qgpm", "true, false, null or an object"),
        ([], "qgpm", "true, false, null or an object"),
        ({"foo": 1}, "qgpm.foo", "unknown"),
        ({"foo": None}, "qgpm.foo", "unknown"),
        ({"question": ""}, "qgpm.question", "blank"),
        ({"question": 3}, "qgpm.question", "string"),
        ({"context": " \n"}, "qgpm.context", "blank"),
        ({"context": ["a"]}, "qgpm.context", "string"),
        ({"evidence": []}, "qgpm.evidence", "at least 1"),
        ({"evidence": "text"}, "qgpm.evidence", "list"),
        ({"evidence": ["a", 1]}, "qgpm.evidence[1]", "text"),
        ({"evidence": [None]}, "qgpm.evidence[0]", "text"),
        ({"evidence": [""]}, "qgpm.evidence[0].text", "blank"),
        ({"evidence": [{"score": 1}]}, "qgpm.evidence[0].text", "missing"),
        ({"evidence": [{"text": "a", "rank": 1}]}, "qgpm.evidence[0].rank", "unknown"),
        ({"evidence": [{"text": "a", "score": "1"}]}, "qgpm.evidence[0].score", "number"),
        ({"evidence": [{"text": "a", "score": True}]}, "qgpm.evidence[0].score", "number"),
        ({"evidence": [{"text": "a", "score": float("nan")}]}, "qgpm.evidence[0].score", "finite"),
        ({"k_broad": True}, "qgpm.k_broad", "integer"),
        ({"k_broad": 2.0}, "qgpm.k_broad", "integer"),
        ({"k_broad": "2"}, "qgpm.k_broad", "integer"),
        ({"k_broad": 1}, "qgpm.k_broad", "2"),
        ({"k_broad": 10**400}, "qgpm.k_broad", "2147483647"),
        ({"k_sharp": 0}, "qgpm.k_sharp", "at least 1"),
        ({"k_broad": 3, "k_sharp": 3}, "qgpm.k_broad", "greater than k_sharp (3)"),
        ({"t_broad": -0.1}, "qgpm.t_broad", "at least 0"),
        ({"t_broad": True}, "qgpm.t_broad", "number"),
        ({"t_sharp": float("nan")}, "qgpm.t_sharp", "finite"),
        ({"t_sharp": float("inf")}, "qgpm.t_sharp", "finite"),
        ({"t_sharp": 10**400}, "qgpm.t_sharp", "number"),
        ({"score_low": 1}, "qgpm.score_low", "[0, 1)"),
        ({"score_low": -0.5}, "qgpm.score_low", "[0, 1)"),
        ({"stride_floor": 0}, "qgpm.stride_floor", "(0, 1]"),
        ({"stride_floor": 1.5}, "qgpm.stride_floor", "(0, 1]"),
        ({"anchor_ratio": 0}, "qgpm.anchor_ratio", "above 0"),
        ({"gate_width": -1}, "qgpm.gate_width", "above 0"),
        ({"ablation": "no_map"}, "qgpm.ablation", "'no_prefix', 'one_map', 'keep_last' or 'keep_starts'"),
    ],
)
def test_a_bad_value_is_refused_with_its_name_and_limit(value: Any, parameter: str, limit: str) -> None:
    with pytest.raises(FieldError) as caught:
        parse(value)
    assert caught.value.parameter == parameter
    assert caught.value.message.startswith(f"{parameter} ")
    assert limit in caught.value.message


def test_the_message_gives_the_value_shortened() -> None:
    with pytest.raises(FieldError, match=r"\(got -0\.5\)"):
        parse({"t_broad": -0.5})
    with pytest.raises(FieldError) as caught:
        parse({"t_broad": 10**400})
    assert len(caught.value.message) < 300


@pytest.mark.parametrize(
    ("value", "parameter", "shown"),
    [
        ({"t_broad": "hot"}, "qgpm.t_broad", "'hot'"),
        ({"t_broad": "as hot as the sun"}, "qgpm.t_broad", "a text of 17 characters"),
        ({"t_broad": "abcdefghijklmnopq"}, "qgpm.t_broad", "a text of 17 characters"),
        ({"evidence": "Anna"}, "qgpm.evidence", "a text of 4 characters"),
        ({"evidence": [{"text": "a", "score": "Anna"}]}, "qgpm.evidence[0].score", "a text of 4 characters"),
        ({"question": ["Who is Anna?"]}, "qgpm.question", "a list of 1"),
        ({"context": {"Anna": "paints"}}, "qgpm.context", "an object of 1"),
        ({"contxt": "Anna paints."}, "qgpm.contxt", "a text of 12 characters"),
        ("Who is Anna?", "qgpm", "a text of 12 characters"),
    ],
)
def test_a_text_that_cannot_be_used_is_not_repeated(value: object, parameter: str, shown: str) -> None:
    with pytest.raises(FieldError) as caught:
        parse(value)
    assert caught.value.parameter == parameter
    assert caught.value.message.endswith(f"(got {shown})")


def test_a_name_that_cannot_be_sent_back_is_named_as_far_as_it_can() -> None:
    with pytest.raises(FieldError) as caught:
        parse({"k" * 5_000: 1})
    assert caught.value.parameter.startswith("qgpm.kkk")
    assert len(caught.value.message) < 400


def test_a_name_of_no_text_is_refused_in_words_that_can_be_sent() -> None:
    with pytest.raises(FieldError) as caught:
        parse({"\ud800": 1})
    assert caught.value.parameter == "qgpm"
    assert "unicode" in caught.value.message
    caught.value.message.encode()


def test_an_unset_k_moves_along() -> None:
    assert parse({"k_sharp": 40}).config(PACKAGE_DEFAULTS).k_broad == 41
    assert parse({"k_broad": 2}).config(PACKAGE_DEFAULTS).k_sharp == 1


def test_k_follows_the_evidence_once_it_is_known() -> None:
    fields = parse({"evidence": ["a"]})
    assert fields.config(PACKAGE_DEFAULTS, 30).k_sharp == 30
    assert fields.config(PACKAGE_DEFAULTS, 30).k_broad == 31
    assert parse({"evidence": ["a"], "k_sharp": 2}).config(PACKAGE_DEFAULTS, 30).k_sharp == 2


@pytest.mark.parametrize(
    ("value", "weights"),
    [
        ("lexical", (("lexical", 1.0),)),
        (["heads", "lexical"], (("heads", 1.0), ("lexical", 1.0))),
        ({"heads": 1, "embedding": 0.25}, (("heads", 1.0), ("embedding", 0.25))),
    ],
)
def test_sources_are_a_name_a_list_or_weights(value: object, weights: Weights) -> None:
    choice = parse({"relevance": value, "fusion": "rank"}).choice(HEADS)
    assert choice == Choice(weights, "rank")


def test_sources_that_are_not_named_are_the_evidence_or_the_servers_own() -> None:
    default = Choice((("lexical", 2.0), ("heads", 1.0)), "rank")
    assert parse({}).choice(default) == default
    assert parse({"fusion": "sum"}).choice(default) == Choice(default.weights, "sum")
    assert parse({"evidence": ["a"]}).choice(default).sources == ("caller",)
    both = parse({"evidence": ["a"], "relevance": ["caller", "lexical"]}).choice(default)
    assert (both.sources, both.fusion) == (("caller", "lexical"), "rank")


@pytest.mark.parametrize(
    ("value", "told"),
    [
        ({"relevance": "head"}, "must be one of heads, lexical, embedding, caller, a list"),
        ({"relevance": []}, "must be one of"),
        ({"relevance": {}}, "must be one of"),
        ({"relevance": 1}, "must be one of"),
        ({"relevance": [["heads"]]}, "must be one of"),
        ({"relevance": ["heads", "heads"]}, "names heads twice"),
        ({"relevance": {"heads": 0}}, "needs weights above 0"),
        ({"relevance": {"heads": True}}, "needs weights above 0"),
        ({"relevance": {"heads": float("nan")}}, "needs weights above 0"),
        ({"relevance": {"heads": 1e7}}, "needs weights above 0"),
        ({"relevance": "caller"}, "names caller, but there is no qgpm.evidence"),
        ({"relevance": "lexical", "evidence": ["a"]}, "leaves out caller, but there is qgpm.evidence"),
    ],
)
def test_sources_that_cannot_be_asked_are_refused_by_name(value: object, told: str) -> None:
    with pytest.raises(FieldError) as found:
        parse(value)
    assert found.value.parameter == "qgpm.relevance"
    assert found.value.message.startswith(f"qgpm.relevance {told}")


@pytest.mark.parametrize("value", [-1, 17, 1.5, True, "1"])
def test_neighbours_are_few(value: object) -> None:
    with pytest.raises(FieldError) as found:
        parse({"neighbours": value})
    assert found.value.parameter == "qgpm.neighbours"


def test_what_shapes_the_maps_is_read() -> None:
    fields = parse({"neighbours": 2, "adaptive_k": True})
    assert (fields.neighbours, fields.adaptive_k) == (2, True)
    assert (parse({}).neighbours, parse({}).adaptive_k) == (0, None)


@pytest.mark.parametrize(
    ("value", "choice", "dial", "adapts"),
    [
        ({}, HEADS, 0.5, True),
        ({}, HEADS, 0.0, False),  # the paper's method
        ({"evidence": ["a"]}, CALLER, 0.5, False),
        ({"k_sharp": 3}, HEADS, 0.5, False),
        ({"k_sharp": 3, "adaptive_k": True}, HEADS, 0.0, True),
        ({"adaptive_k": False}, HEADS, 0.5, False),
    ],
)
def test_k_grows_by_itself_where_a_guard_is_on_and_nobody_told_it(
    value: dict[str, Any], choice: Choice, dial: float, adapts: bool
) -> None:
    assert parse(value).adapts(choice, dial) is adapts
