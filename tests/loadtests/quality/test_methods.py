"""What each method asks a server, in the fields of a request."""

from typing import Any

import pytest

from loadtests.quality.methods import CHANCE, GUARDED, MAIN, METHODS, SERVED, SOURCES, embeds
from positional.guard import DEFAULT_DIAL
from positional.qgpm import PACKAGE_DEFAULTS
from server.fields import QGPMFields
from tests.loadtests.quality_samples import CONTEXT, GOLD, QUESTION, small_sample

SAMPLE = small_sample()
CHAT = [{"role": "user", "content": SAMPLE.messages[0][1]}]
LOCATED = {"question": QUESTION, "context": CONTEXT, "guard": 0.0}
SETTINGS: dict[str, dict[str, Any]] = {
    "no_prefix": {"ablation": "no_prefix"},
    "one_map": {"ablation": "one_map"},
    "all_planes": {"anchor_ratio": 1e12},
    "fast_planes": {"gate_width": 1e-3},
    "t_0": {"t_broad": 0.0, "t_sharp": 0.0},
    "k_small": {"k_broad": 2, "k_sharp": 1},
    "k_large": {"k_broad": 48, "k_sharp": 24},
    "anchor_near": {"anchor_ratio": 0.01},
    "anchor_far": {"anchor_ratio": 0.25},
    "floor_high": {"stride_floor": 0.5},
    "floor_low": {"stride_floor": 0.03},
    "broad_maps": {"k_broad": 16, "k_sharp": 15},
    "keep_last": {"ablation": "keep_last"},
    "keep_starts": {"ablation": "keep_starts"},
}


def test_plain_switches_qgpm_off_whatever_the_server_does_by_default() -> None:
    assert METHODS["plain"].body(SAMPLE) == {"messages": CHAT, "qgpm": False}


def test_qgpm_says_where_to_look_and_gold_what_to_find() -> None:
    assert METHODS["qgpm"].body(SAMPLE) == {"messages": CHAT, "qgpm": {**LOCATED, "relevance": ["heads"]}}
    assert METHODS["gold"].body(SAMPLE) == {"messages": CHAT, "qgpm": {**LOCATED, "evidence": [GOLD]}}


@pytest.mark.parametrize("name", SETTINGS)
def test_an_ablation_is_gold_but_for_one_thing(name: str) -> None:
    gold = METHODS["gold"].body(SAMPLE)
    assert METHODS[name].body(SAMPLE) == {**gold, "qgpm": {**gold["qgpm"], **SETTINGS[name]}}


@pytest.mark.parametrize("name", ["top_k", "reorder"])
def test_an_edited_prompt_is_asked_plainly(name: str) -> None:
    body = METHODS[name].body(small_sample(" ".join([CONTEXT] * 20)))
    assert body["qgpm"] is False
    content = body["messages"][0]["content"]
    assert content.startswith("Read the text.\n\n")
    assert content.endswith(f"\n\n{QUESTION}")
    assert content != CHAT[0]["content"]


def test_other_sources_of_relevance_have_methods_of_their_own() -> None:
    assert not SOURCES.keys() & METHODS.keys()
    assert SOURCES["lexical"].body(SAMPLE)["qgpm"] == {**LOCATED, "relevance": ["lexical"]}
    with_embeddings = ["embedding", "lexical_embedding", "fused"]
    assert [name for name in SERVED if embeds(name) and name not in (*GUARDED, *CHANCE)] == with_embeddings


def test_a_guarded_method_is_the_same_under_the_default_dial() -> None:
    assert set(GUARDED) == {f"{name}_guarded" for name in ("qgpm", "heads", *SOURCES)}
    assert GUARDED["qgpm_guarded"].body(SAMPLE)["qgpm"] == {**LOCATED, "guard": DEFAULT_DIAL}
    assert embeds("fused_guarded")
    for name, sources in (
        ("chance_guarded", ["embedding"]),
        ("heads_chance_guarded", ["heads", "embedding"]),
        ("lexical_chance_guarded", ["lexical", "embedding"]),
        ("heads_lexical_chance_guarded", ["heads", "lexical", "embedding"]),
    ):
        field = {**LOCATED, "relevance": sources, "guard": DEFAULT_DIAL}
        assert CHANCE[name].body(SAMPLE)["qgpm"] == field
    assert not embeds("string")


def test_every_method_is_one_that_a_server_takes() -> None:
    assert set(METHODS) == {*MAIN, *SETTINGS}
    for method in SERVED.values():
        QGPMFields.parse(method.body(SAMPLE)["qgpm"], PACKAGE_DEFAULTS)
