"""What a model's configuration says of each layer: rotation, rule, window, query scale.

No property is inferred from another one: which layers of an architecture rotate is read as transformers'
own implementation reads it, whatever their windows are.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

from vllm.config import VllmConfig

from cache.architecture_config import MODEL_TYPE, Architecture, LayerConfig
from cache.bias_config import Bias
from cache.unsupported import UnsupportedModelError
from positional.masks import tokens_seen
from positional.profile import Profile

# transformers rotates only their windowed layers.
_ROTATE_IN_WINDOWS = ("cohere2", "cohere2_moe")
# Likewise, unless the whole configuration has no window.
_ROTATE_IN_WINDOWS_OR_ALL = ("exaone4", "exaone_moe")


@dataclass(frozen=True, slots=True)
class QueryScale:
    """A factor on the queries by absolute position p: 1 + strength × ln(1 + ⌊(p + first) / floor⌋)."""

    floor: float
    strength: float
    first: int

    def at(self, position: int) -> float:
        """The factor of a query at a position."""
        return 1 + self.strength * math.log1p((position + self.first) // self.floor)


Learned = Literal["basis", "spectrum", "plane"]
"""What weights say of a rotation: planes that a rule turns, frequencies of all planes, or a single plane."""


@dataclass(frozen=True, slots=True)
class Declaration:
    """One layer as its configuration has it.

    `profile` is None where it rotates by no rule; `paired`: the configuration says its pairing too. `window`
    in tokens, the query's own included (None: all), or, where `chunked`, the size of the chunks inside which
    it sees. `learned`: what is learned of its rotation. `bias`: that of its logits.
    """

    profile: Profile | None
    paired: bool = False
    window: int | None = None
    chunked: bool = False
    query_scale: QueryScale | None = None
    learned: Learned | None = None
    bias: Bias | None = None

    @property
    def rotates(self) -> bool:
        """Whether keys follow positions."""
        return self.profile is not None or self.learned is not None


def declarations(config: VllmConfig) -> tuple[Declaration, ...]:
    """One for every layer; raises UnsupportedModelError and ProfileError."""
    text = config.model_config.hf_text_config
    if text.model_type == MODEL_TYPE:
        return _of_our_own(text.architecture, config)
    if not getattr(text, "rope_parameters", None):
        raise UnsupportedModelError(f"{text.model_type} declares no RoPE rule: its positions are not covered")
    return tuple(_of_transformers(text, index, config) for index in range(text.num_hidden_layers))


def check_windows(config: VllmConfig) -> None:
    """Refuse layers whose type has a window that the rest of the configuration takes from them.

    It is read from the configuration alone. Raises UnsupportedModelError, naming the first layer.
    """
    text = config.model_config.hf_text_config
    kinds = None if text.model_type == MODEL_TYPE else getattr(text, "layer_types", None)
    if not kinds or "sliding_attention" not in kinds:
        return
    found = f"layer {kinds.index('sliding_attention')} is of type sliding_attention, and "
    if config.model_config.disable_sliding_window:
        if text.model_type in (*_ROTATE_IN_WINDOWS, *_ROTATE_IN_WINDOWS_OR_ALL):
            raise UnsupportedModelError(f"{found}would no longer rotate without its window")
    elif getattr(text, "sliding_window", None) is None:
        raise UnsupportedModelError(f"{found}its config has no sliding_window")
    # transformers' masks would have the window, and its flash attention would not.
    elif not getattr(text, "use_sliding_window", True):
        raise UnsupportedModelError(f"{found}its config says that no window is used")


def rotated_layers(text: Any) -> tuple[bool, ...]:
    """Whether each layer of a text configuration rotates."""
    if text.model_type == MODEL_TYPE:
        return tuple(layer.rotary != "none" for layer in text.architecture.every_layer)
    return tuple(_rotates(text, index) for index in range(text.num_hidden_layers))


def _of_our_own(architecture: Architecture, config: VllmConfig) -> tuple[Declaration, ...]:
    return tuple(
        Declaration(
            architecture.profile(index, _frequency_length(layer.scaling or {}, config)),
            paired=True,
            window=layer.window,
            query_scale=None
            if (scale := layer.query_scale) is None
            else QueryScale(scale.floor_scale, scale.attn_scale, 1),
            learned=_learned(layer),
            bias=layer.bias,
        )
        for index, layer in enumerate(architecture.every_layer)
    )


def _learned(layer: LayerConfig) -> Learned | None:
    if layer.rotary == "plane":
        return "plane"
    if layer.spectrum is not None:
        return "spectrum"
    return None if layer.basis is None else "basis"


def _of_transformers(text: Any, index: int, config: VllmConfig) -> Declaration:
    window, chunked = _window(text, index)
    rotates = _rotates(text, index)
    return Declaration(
        _profile(text, index, config) if rotates else None,
        window=window,
        chunked=chunked,
        query_scale=_query_scale(text, rotates),
    )


def _rotates(text: Any, index: int) -> bool:
    # The name misleads: 1 means that the layer rotates.
    if flags := getattr(text, "no_rope_layers", None):
        return bool(flags[index])
    if text.model_type in _ROTATE_IN_WINDOWS:
        return _kind(text, index) == "sliding_attention"
    if text.model_type in _ROTATE_IN_WINDOWS_OR_ALL:
        return text.sliding_window is None or _kind(text, index) == "sliding_attention"
    return True


def _kind(text: Any, index: int) -> str | None:
    kinds = getattr(text, "layer_types", None)
    return kinds[index] if kinds else None


def _window(text: Any, index: int) -> tuple[int | None, bool]:
    """The window, and whether it is a chunk."""
    match _kind(text, index):
        case "full_attention":
            return None, False
        case "chunked_attention":
            return text.attention_chunk_size, text.attention_chunk_size is not None
        case "sliding_attention" | None:
            window = getattr(text, "sliding_window", None)
            return None if window is None else tokens_seen(text.model_type, window), False
        case kind:
            raise UnsupportedModelError(f"layer {index} is of type {kind}: not covered")


def _query_scale(text: Any, rotates: bool) -> QueryScale | None:
    if not rotates and getattr(text, "attn_temperature_tuning", False):
        return QueryScale(text.floor_scale, text.attn_scale, 1)
    if scale := getattr(text, "llama_4_scaling", None):
        return QueryScale(scale["original_max_position_embeddings"], scale["beta"], 0)
    return None


def _profile(text: Any, index: int, config: VllmConfig) -> Profile:
    parameters = text.rope_parameters or {}
    kind = _kind(text, index)
    layer_type = kind if kind in parameters else None
    return Profile.from_config(
        text,
        layer_type=layer_type,
        max_length=_frequency_length(parameters if layer_type is None else parameters[layer_type], config),
    )


def _frequency_length(parameters: Mapping[str, Any], config: VllmConfig) -> int:
    """Sequence length that vLLM fixes length-dependent frequencies at."""
    if parameters.get("rope_type") == "dynamic":
        # As many positions as its table has rows, whatever the requests' length.
        trained: int = config.model_config.hf_text_config.max_position_embeddings
        return trained
    return config.model_config.max_model_len
