"""What a server does not allow is refused before the prompt's text is looked at."""

import pytest

from positional.qgpm import PACKAGE_DEFAULTS, Ablation
from server.fields import QGPMFields
from server.limits import NO_LIMITS
from server.preparation import Abilities, refusal

PROMPT = {"type": "token", "prompt_token_ids": [1, 2, 3]}


@pytest.mark.parametrize("ablation", ["no_prefix", "one_map"])
def test_parts_are_left_out_only_where_the_server_was_started_for_it(ablation: Ablation) -> None:
    fields = QGPMFields.parse({"evidence": ["a"], "ablation": ablation}, PACKAGE_DEFAULTS)
    refused = refusal(PROMPT, fields, Abilities(True, None, False, ablations=False, limits=NO_LIMITS))
    assert refused is not None
    assert refused.parameter == "qgpm.ablation"
    assert "--qgpm-ablations" in str(refused)
    assert refusal(PROMPT, fields, Abilities(True, None, False, ablations=True, limits=NO_LIMITS)) is None
