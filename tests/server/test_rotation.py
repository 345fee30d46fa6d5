"""Overrides that would take the rotation from layers that were trained with it."""

import json
from pathlib import Path
from typing import Any

import pytest
from transformers import AutoConfig, PreTrainedConfig
from vllm.engine.arg_utils import AsyncEngineArgs

from cache.architecture_config import ArchitectureError
from cache.registration import register_architectures
from cache.ropeway_config import RopewayConfig
from server.engine_config import configured
from server.flags import FlagError, parse
from server.rotation import check_rotation_kept
from tests.support.sizes import SIZE

register_architectures()

LOCAL: dict[str, Any] = {"rotary": "full", "base": 1e4, "window": 32}
NOPE: dict[str, Any] = {"rotary": "none", "window": None}
FULL, SLIDING = "full_attention", "sliding_attention"


def ropeway() -> PreTrainedConfig:
    own = {"head_dim": 16, "max_position_embeddings": 128, "tie_word_embeddings": True}
    return RopewayConfig(**SIZE, **own, layer_pattern=[LOCAL, NOPE], architectures=["RopewayForCausalLM"])


def other(model_type: str, **fields: Any) -> PreTrainedConfig:
    return AutoConfig.for_model(model_type, **SIZE, **fields)


def check(folder: Path, config: PreTrainedConfig, overrides: dict[str, Any]) -> None:
    config.save_pretrained(folder)
    check_rotation_kept(AsyncEngineArgs(model=str(folder), hf_overrides=overrides))


@pytest.mark.parametrize(
    ("config", "overrides", "layers"),
    [
        (ropeway(), {"layer_pattern": [NOPE]}, "0, 2"),
        (ropeway(), {"layer_pattern": None, "layers": [LOCAL, NOPE, NOPE, LOCAL]}, "2"),
        (other("smollm3", no_rope_layers=[1, 1, 1, 0]), {"no_rope_layers": [0, 1, 0, 1]}, "0, 2"),
        (other("cohere2", layer_types=[SLIDING] * 4), {"layer_types": [SLIDING, FULL] * 2}, "1, 3"),
    ],
)
def test_rotation_is_not_dropped_in_silence(
    config: PreTrainedConfig, overrides: dict[str, Any], layers: str, tmp_path: Path
) -> None:
    with pytest.raises(FlagError, match=f"--hf-overrides: layers {layers} were trained with rotation"):
        check(tmp_path, config, json.loads(json.dumps(overrides)))


@pytest.mark.parametrize(
    ("config", "overrides"),
    [
        (ropeway(), {}),
        (ropeway(), {"max_position_embeddings": 256}),
        (ropeway(), {"layer_pattern": [LOCAL | {"window": 8}, NOPE]}),
        (ropeway(), {"rope_parameters": {"rope_theta": 5e4, "rope_type": "default"}}),
        (other("llama"), {"rope_parameters": {"rope_theta": 5e4, "rope_type": "default"}}),
        (other("smollm3", no_rope_layers=[1, 1, 1, 0]), {"no_rope_layers": [1, 1, 1, 1]}),
    ],
)
def test_other_overrides_pass(config: PreTrainedConfig, overrides: dict[str, Any], tmp_path: Path) -> None:
    check(tmp_path, config, overrides)


def test_an_override_that_means_nothing_is_named(tmp_path: Path) -> None:
    with pytest.raises(ArchitectureError, match=r"^layer_patern: is unknown"):
        check(tmp_path, ropeway(), {"layer_patern": [NOPE]})


@pytest.mark.parametrize("flags", [[], ["--drop-rotation"]])
def test_serve_asks_for_the_flag(flags: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("VLLM_USE_V2_MODEL_RUNNER", "0")
    ropeway().save_pretrained(tmp_path)
    overrides = ["--hf-overrides", json.dumps({"layer_pattern": [NOPE]}), "--skip-tokenizer-init"]
    args = parse(str(tmp_path), [*overrides, *flags])
    engine_args = AsyncEngineArgs.from_cli_args(args)
    if flags:
        config, served = configured(engine_args, None, args)
        assert config.model_config.hf_config.rope_parameters is None
        assert served is None
    else:
        with pytest.raises(FlagError, match="--drop-rotation"):
            configured(engine_args, None, args)
