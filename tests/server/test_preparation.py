"""What a server does not allow is refused before the prompt's text is looked at."""

from dataclasses import replace
from typing import get_args

import pytest

from positional.qgpm import PACKAGE_DEFAULTS, Ablation
from positional.sources.fusion import Choice
from server.fields import QGPMFields
from server.limits import NO_LIMITS
from server.preparation import Abilities, refusal

PROMPT = {"type": "token", "prompt_token_ids": [1, 2, 3]}


@pytest.mark.parametrize("ablation", get_args(Ablation))
def test_parts_are_left_out_only_where_the_server_was_started_for_it(ablation: Ablation) -> None:
    fields = QGPMFields.parse({"evidence": ["a"], "ablation": ablation}, PACKAGE_DEFAULTS)
    refused = refusal(PROMPT, fields, Abilities(True, None, False, ablations=False, limits=NO_LIMITS))
    assert refused is not None
    assert refused.parameter == "qgpm.ablation"
    assert "--qgpm-ablations" in str(refused)
    assert refusal(PROMPT, fields, Abilities(True, None, False, ablations=True, limits=NO_LIMITS)) is None


def _refused(value: object, abilities: Abilities) -> tuple[str, str] | None:
    error = refusal(PROMPT, QGPMFields.parse(value, PACKAGE_DEFAULTS), abilities)
    return None if error is None else (str(error.parameter), str(error))


def test_only_sources_that_the_server_has_can_be_asked() -> None:
    bare = Abilities(True, None, False, ablations=False, limits=NO_LIMITS)
    assert _refused({"relevance": "lexical"}, bare) is None
    for value, parameter in (({}, "qgpm"), ({"relevance": ["lexical", "heads"]}, "qgpm.relevance")):
        refused = _refused(value, bare)
        assert refused is not None
        assert refused[0] == parameter
        assert "head profile" in refused[1]
    refused = _refused({"relevance": {"embedding": 2}}, bare)
    assert refused is not None
    assert refused[0] == "qgpm.relevance"
    assert "--embedding-model" in refused[1]
    assert _refused({"relevance": "embedding"}, replace(bare, embeds=True)) is None


def test_a_server_whose_default_needs_no_heads_needs_no_head_profile() -> None:
    lexical = Choice((("lexical", 1.0),))
    abilities = Abilities(True, None, True, ablations=False, limits=NO_LIMITS, relevance=lexical)
    assert _refused({}, abilities) is None
    assert _refused({"evidence": ["a"]}, abilities) is None
