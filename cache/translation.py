"""Configurations of other Llama-shaped models as one of our architecture, whose weights are theirs."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from cache.architecture_config import Architecture, ArchitectureError

SMOLLM3 = "smollm3"
_SHAPE = (
    *("vocab_size", "hidden_size", "intermediate_size", "num_hidden_layers", "num_attention_heads"),
    *("num_key_value_heads", "hidden_act", "rms_norm_eps", "max_position_embeddings", "tie_word_embeddings"),
)
# The last two are vLLM's names of longrope's attention factor, which is there too.
_NOT_SCALING = ("rope_theta", "partial_rotary_factor", "type", "short_mscale", "long_mscale")


@dataclass(frozen=True, slots=True)
class _Family:
    """What a model type does that its configuration does not say.

    `attention_bias` and `output_bias`: biases that it always or never has; None where the field
    `attention_bias` decides.
    """

    attention_bias: bool | None = None
    output_bias: bool | None = None
    qk_norm: bool = False


_FAMILIES = {
    "llama": _Family(),
    "mistral": _Family(attention_bias=False, output_bias=False),
    "qwen2": _Family(attention_bias=True, output_bias=False),
    "qwen3": _Family(qk_norm=True),
    SMOLLM3: _Family(),
}


def translated(config: Any) -> Architecture:
    """The architecture of a transformers configuration; raises ArchitectureError for what has none.

    Every layer keeps its rotation and its window.
    """
    family = _FAMILIES.get(config.model_type)
    if family is None:
        known = ", ".join(sorted(_FAMILIES))
        raise ArchitectureError("model_type", f"must be one of {known}", config.model_type)
    rule = rule_fields(config.rope_parameters)
    if config.rope_parameters.get("partial_rotary_factor", 1) != 1:
        raise ArchitectureError("rope_parameters.partial_rotary_factor", f"is not {config.model_type}'s")
    bias = getattr(config, "attention_bias", False)
    layers = [
        {"rotary": "full" if rotates else "none", "window": window, "qk_norm": family.qk_norm}
        | (rule if rotates else {})
        for rotates, window in zip(_rotated(config), _windows(config), strict=True)
    ]
    return Architecture.read(
        {name: getattr(config, name) for name in _SHAPE}
        | {
            "head_dim": getattr(config, "head_dim", None) or config.hidden_size // config.num_attention_heads,
            "attention_bias": bias if family.attention_bias is None else family.attention_bias,
            "output_bias": bias if family.output_bias is None else family.output_bias,
            "mlp_bias": getattr(config, "mlp_bias", False),
            "layers": layers,
        }
    )


def rule_fields(rule: Mapping[str, Any]) -> dict[str, Any]:
    """A layer's `base` and `scaling` for a rule in transformers' spelling; the rotated share is its own."""
    scaling = {name: value for name, value in rule.items() if name not in _NOT_SCALING and value is not None}
    unscaled = scaling.get("rope_type", "default") == "default"
    return {"base": rule.get("rope_theta"), "scaling": None if unscaled else scaling}


def _rotated(config: Any) -> Sequence[bool]:
    """The name misleads: 1 in `no_rope_layers` is a layer that does rotate."""
    if config.model_type != SMOLLM3:
        return [True] * config.num_hidden_layers
    return [bool(flag) for flag in _by_layer(config, "no_rope_layers")]


def _windows(config: Any) -> Sequence[int | None]:
    """As transformers reads them: by the layer's type, or of all layers where there are no types."""
    window = getattr(config, "sliding_window", None)
    if getattr(config, "layer_types", None) is None:
        return [window] * config.num_hidden_layers
    windowed = [kind == "sliding_attention" for kind in _by_layer(config, "layer_types")]
    if any(windowed):
        _check_window(config, windowed.index(True))
    return [window if has_window else None for has_window in windowed]


def _check_window(config: Any, index: int) -> None:
    """Raises ArchitectureError where a layer's type says that it has a window and another field that not."""
    where = f"layer_types.{index}"
    if getattr(config, "sliding_window", None) is None:
        raise ArchitectureError(where, "is sliding_attention, and there is no sliding_window")
    # transformers' masks would have the window, and its flash attention would not.
    if not getattr(config, "use_sliding_window", True):
        raise ArchitectureError(where, "is sliding_attention, and use_sliding_window is false")


def _by_layer(config: Any, name: str) -> Sequence[Any]:
    values: Sequence[Any] = getattr(config, name)
    if len(values) < config.num_hidden_layers:
        raise ArchitectureError(name, f"must hold {config.num_hidden_layers}, one a layer", len(values))
    return values[: config.num_hidden_layers]
