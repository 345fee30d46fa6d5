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

_LEARNED = {"rotary": "full", "window": None}
_PLANE = {"rotary": "plane", "window": None}
_ALIBI = {"bias": {"kind": "alibi"}}
_SLOPES = {"bias": {"kind": "alibi", "slopes": [0.5, 0.01, 0.001, 0.002]}}
_FOX = {"bias": {"kind": "forget"}}


def _slopes(*gates: str, **more: Any) -> dict[str, Any]:
    return {"bias": {"kind": "gated_slope", "gates": list(gates), "frequency": 0.01, **more}}


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
    "alibi": {"layers": [_NOPE | _ALIBI, _LOCAL | _ALIBI, _NOPE | _ALIBI | _SLOPES, _GLOBAL]},
    "gated slopes": {
        "layers": [
            _NOPE | _slopes("key"),
            _LOCAL | _slopes("query"),
            _GLOBAL | _slopes("query", "key") | _NORMED,
            _NOPE | _slopes("key", link="identity", frequency=1e-3),
        ]
    },
    "forget gates": {"layers": [_NOPE | _FOX, _LOCAL | _FOX, _GLOBAL | _FOX | _NORMED, _GLOBAL]},
    "learned bases": {
        "layers": [
            _GLOBAL | {"basis": "tied"},
            _LOCAL | _NORMED | {"basis": "per_head"},
            _PARTIAL | {"basis": "per_head", "pairing": "interleaved", "window": WINDOW},
            _GLOBAL | _NORMED | {"basis": "tied"},
        ],
        **_BIASED,
    },
    "learned spectra": {
        "layers": [
            _LEARNED | {"spectrum": "tied"},
            _LEARNED | {"spectrum": "per_head", "pairing": "interleaved", "window": WINDOW},
            _LEARNED | {"spectrum": "tied", "basis": "per_head"} | _NORMED,
            _LEARNED | {"spectrum": "per_head", "basis": "tied", "rotary": "partial", "rotary_fraction": 0.5},
        ]
    },
    "learned planes": {
        "layers": [_PLANE, _PLANE | {"window": WINDOW}, _PLANE | _NORMED | _ALIBI, _PLANE | _FOX]
    },
}
ENCODED = ("alibi", "gated slopes", "forget gates", "learned bases", "learned spectra", "learned planes")
"""Patterns of what is beside RoPE and NoPE."""
_HIDDEN, _INNER, _WIDTH, _HEADS, _KV_HEADS = 128, 256, 32, 4, 2


def make_hybrid(
    pattern: str, folder: Path, *, window: int | None = WINDOW, seed: int = 0, **fields: Any
) -> Path:
    """Write a checkpoint of a pattern, with the tokenizer of the other checkpoints.

    `window`: what its windowed layers see; None makes them global. `fields` replace those of the
    configuration, "float32" as the weights' `dtype` too. Returns `folder`.
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
    dtype: torch.dtype = getattr(torch, config["dtype"])
    weights = {
        # What encodings learn is kept in float32.
        name: weight if "rotary_" in name or "logit_bias" in name else weight.to(dtype)
        for name, weight in _weights(config, seed).items()
    }
    save_file(weights, folder / "model.safetensors", metadata={"format": "pt"})
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
        weights |= _encoding(layer, config, f"{name}.self_attn", generator)
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


def _encoding(
    layer: dict[str, Any], config: dict[str, Any], name: str, generator: torch.Generator
) -> dict[str, torch.Tensor]:
    """What a layer's learned rotation and its bias need; gates are such that far keys count too."""
    heads, kv_heads, width = (
        config[field] for field in ("num_attention_heads", "num_key_value_heads", "head_dim")
    )
    turned = round(width * layer.get("rotary_fraction", 1))
    by_head = {"tied": 1, "per_head": kv_heads}

    def noise(*shape: int) -> torch.Tensor:
        return torch.randn(shape, generator=generator, dtype=torch.float64)

    found: dict[str, torch.Tensor] = {}
    if kind := layer.get("basis"):
        found["rotary_basis.weight"] = torch.linalg.qr(noise(by_head[kind], width, width)).Q
    if kind := layer.get("spectrum"):
        found["rotary_emb.angles"] = noise(by_head[kind], turned // 2) * 0.3
    if layer["rotary"] == "plane":
        found["rotary_emb.plane"] = noise(kv_heads, 2, width) * 0.15
    bias = layer.get("bias") or {}
    if "query" in bias.get("gates", ()):
        found["logit_bias.query_gate"] = noise(heads, width) * 0.1
    if "key" in bias.get("gates", ()):
        found["logit_bias.key_gate"] = noise(kv_heads, width) * 0.1
    if bias.get("kind") == "forget":
        found["logit_bias.weight"] = noise(kv_heads, config["hidden_size"]) * 0.1
        found["logit_bias.bias"] = noise(kv_heads).abs() + 3
    return {f"{name}.{part}": weight.float().contiguous() for part, weight in found.items()}
