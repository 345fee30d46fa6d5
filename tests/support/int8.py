"""Tiny checkpoints with int8 weights, and what int8 arithmetic makes of them."""

import json
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load_file, save_file

from tests.support.hybrid_reference import HybridReference

INT8: dict[str, Any] = {
    "quant_method": "compressed-tensors",
    "format": "int-quantized",
    "ignore": ["lm_head"],
    "config_groups": {
        "group_0": {
            "targets": ["Linear"],
            "weights": {"num_bits": 8, "type": "int", "strategy": "channel", "symmetric": True},
            "input_activations": {
                "num_bits": 8,
                "type": "int",
                "strategy": "token",
                "symmetric": True,
                "dynamic": True,
            },
        }
    },
}


def quantised(folder: Path) -> Path:
    """The checkpoint with its linear layers in int8, by output channel."""
    weights = {}
    for name, weight in load_file(folder / "model.safetensors").items():
        if not name.endswith("_proj.weight"):
            weights[name] = weight
            continue
        scale = weight.abs().amax(dim=1, keepdim=True) / 127
        weights[name] = (weight / scale).round().char()
        weights[f"{name}_scale"] = scale
    save_file(weights, folder / "model.safetensors", metadata={"format": "pt"})
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps(config | {"quantization_config": INT8}))
    return folder


class QuantisedReference(HybridReference):
    """A checkpoint that `quantised` left: linear layers multiply whole numbers, and all else is as it was."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        for name in [name for name in self._weights if name.endswith("_scale")]:
            self._weights[name.removesuffix("_scale")] *= self._weights[name]

    def _linear(self, name: str, states: torch.Tensor) -> torch.Tensor:
        step = states.abs().amax(dim=-1, keepdim=True) / 127
        return super()._linear(name, (states / step).round() * step)
