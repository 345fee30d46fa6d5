"""Models of other architectures, written in ours, compute the same."""

from pathlib import Path
from typing import Any

import pytest
import torch
from transformers import AutoModelForCausalLM, SmolLM3Config

from server import plain_model  # noqa: F401 - registers our architecture with transformers
from server.init_config import Change, Source, init_config
from tests.support.checkpoints import Architecture, initialised, make

LENGTH = 150


def logits(folder: Path) -> torch.Tensor:
    model = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32).eval()
    ids = torch.randint(3, 500, (1, LENGTH), generator=torch.Generator().manual_seed(1))
    with torch.inference_mode():
        found: torch.Tensor = model(ids).logits
    return found


def same_as_before(model: Path, folder: Path) -> bool:
    init_config(folder, Source.read(model), Change(), drop_rotation=False)
    return torch.allclose(logits(folder), logits(model), atol=1e-3)


@pytest.mark.parametrize("architecture", ["llama", "mistral", "qwen2", "qwen3"])
@pytest.mark.parametrize("tie", [False, True])
def test_models_of_equal_layers(architecture: Architecture, tie: bool, tmp_path: Path) -> None:
    assert same_as_before(make(architecture, tmp_path / "model", tie=tie), tmp_path / "ours")


def test_a_scaled_rule(tmp_path: Path) -> None:
    rule = {"rope_theta": 1e4, "rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 64}
    assert same_as_before(make("llama", tmp_path / "model", rope_parameters=rule), tmp_path / "ours")


def test_smollm3_with_windows(tmp_path: Path) -> None:
    fields: dict[str, Any] = {
        "vocab_size": 600,
        "hidden_size": 128,
        "intermediate_size": 256,
        "num_hidden_layers": 4,
        "num_attention_heads": 4,
        "num_key_value_heads": 2,
        "pad_token_id": 0,
        "no_rope_layers": [1, 0, 0, 1],
        "layer_types": ["sliding_attention", "full_attention"] * 2,
        "use_sliding_window": True,
        "sliding_window": 48,
        "attention_bias": True,
        "mlp_bias": True,
    }
    initialised(SmolLM3Config(**fields), seed=0).save_pretrained(tmp_path / "model")
    assert same_as_before(tmp_path / "model", tmp_path / "ours")
