import json
from typing import Any

import pytest

from cache.settings import EngineSettings, SettingsError


@pytest.mark.parametrize("heads", [(), ((3, 7),), ((0, 0), (11, 2))])
def test_settings_survive_json(heads: tuple[tuple[int, int], ...]) -> None:
    settings = EngineSettings(heads)
    assert EngineSettings.from_config(json.loads(json.dumps(settings.to_config()))) == settings


def test_settings_stand_beside_those_of_others() -> None:
    assert EngineSettings.from_config({"theirs": 1, **EngineSettings(((1, 2),)).to_config()}).heads == (
        (1, 2),
    )


def test_other_heads_give_another_compile_cache_key() -> None:
    assert EngineSettings(((1, 2),)).to_config() != EngineSettings(((2, 1),)).to_config()


@pytest.mark.parametrize(
    "config",
    [None, {}, {"ropeway": None}, {"ropeway": {"heads": []}}, {"ropeway": {"format": 2, "heads": []}}],
)
def test_missing_or_foreign_settings_are_refused(config: Any) -> None:
    with pytest.raises(SettingsError, match="ropeway serve"):
        EngineSettings.from_config(config)
