"""Tiny randomly initialised checkpoints of Ropeway's own architecture, whose layers differ."""

import json
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import save_file

from tests.support.checkpoints import make_tokenizer

WINDOW = 48
"""Tokens that a windowed layer sees, its own included."""

_LOCAL = {"rotary": "full", "window": WINDOW, "base": 10_000.0}
_NOPE = {"rotary": "none", "window": None}
_NORMED = {"qk_norm": True}
_SCALED = {"query_scale": {"floor_scale": 32.0, "attn_scale": 0.3}}
_BIASED = {"attention_bias": True, "output_bias": True, "mlp_bias": True}
_YARN = {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 4096}

_GLOBAL = {"rotary": "full", "window": None, "base": 1_000_000.0}
_PARTIAL = {"rotary": "partial", "rotary_fraction": 0.25, "window": None, "base": 1_000_000.0}

# Every field of the architecture that changes a computation is at work in some pattern.
PATTERNS: dict[str, dict[str, Any]] = {
    "1:1": {"layers": [_LOCAL, _NOPE] * 2},
    "3:1": {"layer_pattern": [_LOCAL | _NORMED] * 3 + [_NOPE | _NORMED | _SCALED], "num_hidden_layers": 8},
    "5:1": {"layer_pattern": [_LOCAL | {"pairing": "interleaved"}] * 5 + [_NOPE], **_BIASED},
    "all-NoPE": {"layers": [_NOPE] * 3 + [_NOPE | _SCALED], "tie_word_embeddings": True},
    "partial": {"layers": [_LOCAL | _NORMED, _PARTIAL | _NORMED] * 2},
    "global rotary": {"layer_pattern": [_LOCAL, _GLOBAL | {"scaling": _YARN}], "num_hidden_layers": 4},
    "local only": {"layers": [_LOCAL] * 2},
    "all global": {"layers": [_GLOBAL] * 4},
}
_HIDDEN, _INNER, _WIDTH, _HEADS, _KV_HEADS = 128, 256, 32, 4, 2


def make_hybrid(
    pattern: str, folder: Path, *, window: int | None = WINDOW, seed: int = 0, **fields: Any
) -> Path:
    """Write a float32 checkpoint of a pattern, with the tokenizer of the other checkpoints.

    `window`: what its windowed layers see; None makes them global. `fields` replace those of the
    configuration. Returns `folder`.
    """
    tokenizer = make_tokenizer()
    chosen = _seeing(window, PATTERNS[pattern])
    config: dict[str, Any] = {
        "architectures": ["RopewayForCausalLM"],
        "model_type": "ropeway",
        "dtype": "float32",
        "vocab_size": len(tokenizer),
        "hidden_size": _HIDDEN,
        "intermediate_size": _INNER,
        "num_hidden_layers": len(chosen.get("layers") or chosen["layer_pattern"]),
        "num_attention_heads": _HEADS,
        "num_key_value_heads": _KV_HEADS,
        "head_dim": _WIDTH,
        "max_position_embeddings": 16_384,
        "tie_word_embeddings": False,
        "eos_token_id": tokenizer.eos_token_id,
        "pad_token_id": tokenizer.pad_token_id,
        **chosen,
        **fields,
    }
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "config.json").write_text(json.dumps(config, indent=2))
    save_file(_weights(config, seed), folder / "model.safetensors", metadata={"format": "pt"})
    tokenizer.save_pretrained(folder)
    return folder


def _seeing(window: int | None, chosen: dict[str, Any]) -> dict[str, Any]:
    """The pattern with another window."""
    name = "layers" if "layers" in chosen else "layer_pattern"
    layers = [{**layer, "window": layer["window"] and window} for layer in chosen[name]]
    return {**chosen, name: layers}


def layers_of(config: dict[str, Any]) -> list[dict[str, Any]]:
    """One entry a layer, as a configuration's `layers` or its repeated `layer_pattern` say."""
    given = config.get("layers") or config["layer_pattern"]
    return [given[index % len(given)] for index in range(config["num_hidden_layers"])]


def _weights(config: dict[str, Any], seed: int) -> dict[str, torch.Tensor]:
    """Weights as those of the other checkpoints: positions matter, and float32 noise does not."""
    generator = torch.Generator().manual_seed(seed)

    def noise(*shape: int) -> torch.Tensor:
        return 0.1 * torch.randn(shape, generator=generator)

    weights: dict[str, torch.Tensor] = {}

    def linear(name: str, outputs: int, inputs: int, bias: bool) -> None:
        weights[f"{name}.weight"] = noise(outputs, inputs)
        if bias:
            weights[f"{name}.bias"] = noise(outputs)

    hidden, inner, width = config["hidden_size"], config["intermediate_size"], config["head_dim"]
    heads, kv_heads = config["num_attention_heads"] * width, config["num_key_value_heads"] * width
    attention, mlp = config.get("attention_bias", False), config.get("mlp_bias", False)
    weights["model.embed_tokens.weight"] = noise(config["vocab_size"], hidden)
    for index, layer in enumerate(layers_of(config)):
        name = f"model.layers.{index}"
        weights[f"{name}.input_layernorm.weight"] = 1 + noise(hidden)
        weights[f"{name}.post_attention_layernorm.weight"] = 1 + noise(hidden)
        linear(f"{name}.self_attn.q_proj", heads, hidden, attention)
        linear(f"{name}.self_attn.k_proj", kv_heads, hidden, attention)
        linear(f"{name}.self_attn.v_proj", kv_heads, hidden, attention)
        linear(f"{name}.self_attn.o_proj", hidden, heads, config.get("output_bias", False))
        if layer.get("qk_norm"):
            weights[f"{name}.self_attn.q_norm.weight"] = 1.5 + noise(width)
            weights[f"{name}.self_attn.k_norm.weight"] = 1.5 + noise(width)
        linear(f"{name}.mlp.gate_proj", inner, hidden, mlp)
        linear(f"{name}.mlp.up_proj", inner, hidden, mlp)
        linear(f"{name}.mlp.down_proj", hidden, inner, mlp)
    weights["model.norm.weight"] = 1 + noise(hidden)
    if not config["tie_word_embeddings"]:
        weights["lm_head.weight"] = noise(config["vocab_size"], hidden)
    return weights
