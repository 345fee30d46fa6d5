"""The layer plan of a loaded model: per layer its span, its rotary module, its profile and its map."""

from dataclasses import dataclass
from typing import Any

import torch
from torch import nn
from vllm.config import VllmConfig
from vllm.model_executor.layers.attention.attention import Attention
from vllm.model_executor.layers.attention_layer_base import AttentionLayerBase
from vllm.model_executor.models.utils import extract_layer_index
from vllm.v1.attention.backend import AttentionType

from cache.rotary import stock_table
from positional.coordinates import MapName
from positional.phases import rotation_rows
from positional.profile import Profile

# Their configs build a rotary module on layers that never call it, so which layers rotate has to be
# measured before a map may be given to them.
_MIXED_ROTATION = (
    "AfmoeForCausalLM",
    "Cohere2ForCausalLM",
    "Cohere2MoeForCausalLM",
    "Exaone4ForCausalLM",
    "ExaoneMoEForCausalLM",
    "ExaoneMoeForCausalLM",
    "Llama4ForCausalLM",
    "MuseGlimmerForCausalLM",
    "OlmoHybridForCausalLM",
    "SmolLM3ForCausalLM",
    "Step3p5ForCausalLM",
    "Zamba2ForCausalLM",
)
_TABLE_ROWS = (0, 1, 2, 61)
_TABLE_TOLERANCE = {torch.float32: 1e-4, torch.bfloat16: 1.6e-2, torch.float16: 2e-3}


class UnsupportedModelError(RuntimeError):
    """The model, or one of its layers, is not covered; the message names it."""


@dataclass(frozen=True, slots=True)
class Layer:
    """One decoder layer: `window` in tokens (None: full), and the map that it rotates by."""

    index: int
    attention: str
    window: int | None
    profile: Profile
    map: MapName

    @property
    def owner(self) -> str:
        """Module path of the attention block that owns `rotary_emb` and `attn`."""
        return self.attention.rpartition(".")[0]

    def describe(self) -> dict[str, Any]:
        """JSON for `GET /v1/positional`."""
        return {
            "layer": self.index,
            "span": "full" if self.window is None else self.window,
            "rotary": True,
            "map": self.map,
            "profile": self.profile.digest.hex()[:16],
        }


@dataclass(frozen=True, slots=True)
class LayerPlan:
    """All layers in order.

    `profile` is the main one, which a request's own replaces: that of the full-attention layers, where
    there are none the only one; None where several windowed kinds have one each.
    """

    layers: tuple[Layer, ...]
    profile: Profile | None

    @property
    def modulated(self) -> tuple[Layer, ...]:
        """Full-attention rotary layers: those that rotate by broad or sharp."""
        return tuple(layer for layer in self.layers if layer.map != "standard")

    @property
    def mapped(self) -> tuple[Layer, ...]:
        """Layers of the main profile, windowed ones too: those that follow a request's profile."""
        return tuple(layer for layer in self.layers if layer.profile == self.profile)

    def describe(self) -> dict[str, Any]:
        """JSON for `GET /v1/positional`; `inverse_frequencies` and numbers of every profile in use."""
        profiles = {layer.profile.digest.hex()[:16]: layer.profile.describe() for layer in self.layers}
        return {
            "layers": [layer.describe() for layer in self.layers],
            "profile": None if self.profile is None else self.profile.digest.hex()[:16],
            "profiles": profiles,
        }


def read_plan(model: nn.Module, config: VllmConfig) -> LayerPlan:
    """Read the plan off a loaded model; raises UnsupportedModelError, naming what is not covered."""
    refuse_by_name(config)
    attentions = [(n, m) for n, m in model.named_modules() if isinstance(m, AttentionLayerBase)]
    layers = tuple(sorted((_read_layer(model, n, m, config) for n, m in attentions), key=_index))
    expected = config.model_config.hf_text_config.num_hidden_layers
    if [layer.index for layer in layers] != list(range(expected)):
        raise UnsupportedModelError(f"{len(layers)} attention layers found where the config has {expected}")
    return LayerPlan(layers, _main_profile(layers))


def _main_profile(layers: tuple[Layer, ...]) -> Profile | None:
    full = {layer.profile for layer in layers if layer.map != "standard"}
    if len(full) > 1:
        raise UnsupportedModelError("the full-attention layers do not all rotate by one RoPE profile")
    candidates = full or {layer.profile for layer in layers}
    return candidates.pop() if len(candidates) == 1 else None


def _index(layer: Layer) -> int:
    return layer.index


def refuse_by_name(config: VllmConfig) -> None:
    """What a config alone shows is not covered; raises UnsupportedModelError, naming it."""
    model = config.model_config
    for architecture in model.architectures:
        if architecture in _MIXED_ROTATION:
            raise UnsupportedModelError(f"{architecture} mixes rotated and unrotated layers: not covered yet")
    if model.uses_mrope:
        raise UnsupportedModelError(f"{model.architecture} rotates by M-RoPE: not covered")


def _read_layer(model: nn.Module, name: str, attention: nn.Module, config: VllmConfig) -> Layer:
    if not isinstance(attention, Attention) or attention.attn_type != AttentionType.DECODER:
        raise UnsupportedModelError(f"{name} is {type(attention).__name__}, not decoder self-attention")
    if attention.kv_sharing_target_layer_name is not None:
        raise UnsupportedModelError(f"{name} reads the cache of {attention.kv_sharing_target_layer_name}")
    rotary = getattr(model.get_submodule(name.rpartition(".")[0]), "rotary_emb", None)
    if not isinstance(rotary, nn.Module):
        raise UnsupportedModelError(f"{name}: its attention block owns no rotary_emb")
    index = extract_layer_index(name)
    profile = _profile_of(index, name, rotary, config)
    return Layer(index, name, attention.sliding_window, profile, _map_of(index, attention, config))


def _map_of(index: int, attention: Attention, config: VllmConfig) -> MapName:
    """Layers below ⌊n/2⌋ take the broad map, the others the sharp one (paper, section 4.4)."""
    if attention.sliding_window is not None:
        return "standard"
    return "broad" if index < config.model_config.hf_text_config.num_hidden_layers // 2 else "sharp"


def _profile_of(index: int, name: str, rotary: nn.Module, config: VllmConfig) -> Profile:
    """The profile that the config declares for a layer, checked against the module's own table."""
    text_config = config.model_config.hf_text_config
    parameters = text_config.rope_parameters or {}
    layer_types = getattr(text_config, "layer_types", None)
    layer_type = layer_types[index] if layer_types and layer_types[index] in parameters else None
    profile = Profile.from_config(
        text_config,
        layer_type=layer_type,
        max_length=_frequency_length(parameters if layer_type is None else parameters[layer_type], config),
        # Longrope's module knows one pairing only, and does not name it.
        pairing="half" if getattr(rotary, "is_neox_style", True) else "interleaved",
    )
    _check_table(name, rotary, profile)
    _check_length(name, rotary, config.model_config.max_model_len)
    return profile


def _frequency_length(parameters: dict[str, Any], config: VllmConfig) -> int:
    """Sequence length that vLLM fixes length-dependent frequencies at."""
    if parameters.get("rope_type") == "dynamic":
        # As many positions as its table has rows, whatever the requests' length.
        trained: int = config.model_config.hf_text_config.max_position_embeddings
        return trained
    return config.model_config.max_model_len


def _check_table(name: str, rotary: nn.Module, profile: Profile) -> None:
    table = stock_table(rotary)
    rows = [row for row in _TABLE_ROWS if row < len(table)]
    positions = torch.tensor(rows, dtype=torch.float64)[:, None].expand(-1, profile.planes)
    expected = rotation_rows(positions, profile, table.dtype)
    found = table[rows].to("cpu")
    if expected.shape != found.shape:
        raise UnsupportedModelError(
            f"{name} rotates {found.shape[1]} dimensions, its config {expected.shape[1]}"
        )
    error = (found.double() - expected.double()).abs().max().item()
    if error > _TABLE_TOLERANCE[table.dtype] * max(1.0, profile.attention_factor):
        raise UnsupportedModelError(
            f"{name} rotates by other angles than its config declares (by {error:.2g})"
        )


def _check_length(name: str, rotary: nn.Module, max_length: int) -> None:
    positions = len(stock_table(rotary))
    if positions < max_length:
        raise UnsupportedModelError(
            f"{name} has rotary rows for {positions} positions: --max-model-len must not be {max_length}"
        )
