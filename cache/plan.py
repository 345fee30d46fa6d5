"""The layer plan of a loaded model: per layer its span, its rotation, its profile and its map.

It is measured, and has to be what the configuration says.
"""

from dataclasses import asdict, dataclass, replace
from typing import Any

import torch
from torch import nn
from vllm.config import VllmConfig
from vllm.model_executor.layers.attention.attention import Attention
from vllm.model_executor.layers.attention.chunked_local_attention import ChunkedLocalAttention
from vllm.model_executor.layers.attention_layer_base import AttentionLayerBase
from vllm.model_executor.models.utils import extract_layer_index
from vllm.v1.attention.backend import AttentionType

from cache.bias_config import Bias
from cache.declaration import Declaration, Learned, QueryScale, check_windows, declarations
from cache.layer_contract import layer_contract
from cache.measurement import Measured, Rotation, measure
from cache.rotary import stock_table
from cache.unsupported import UnsupportedModelError
from positional.coordinates import MapName
from positional.profile import Pairing, Profile

# What rounding leaves of a difference, as a share of the largest value.
_TOLERANCE = {torch.float32: 1e-4, torch.bfloat16: 1.6e-2, torch.float16: 2e-3}
_PAIRINGS: tuple[Pairing, ...] = ("half", "interleaved")

Span = tuple[int | None, bool]
"""A window or chunk in tokens (None: all tokens), and whether it is a chunk."""


@dataclass(frozen=True, slots=True)
class Layer:
    """One decoder layer.

    `window` in tokens (None: full), or, where `chunked`, the size of the chunks inside which it attends.
    `profile` is None where the layer does not rotate; `map` is the one that it rotates by. `bare`: attention
    reads queries and keys as the rotary module leaves them. `learned` and `bias` as in Declaration.
    """

    index: int
    attention: str
    window: int | None
    profile: Profile | None
    map: MapName
    chunked: bool = False
    query_scale: QueryScale | None = None
    bare: bool = True
    learned: Learned | None = None
    bias: Bias | None = None

    @property
    def owner(self) -> str:
        """Module path of the attention block that owns `rotary_emb` and `attn`."""
        return self.attention.rpartition(".")[0]

    def describe(self) -> dict[str, Any]:
        """JSON for `GET /v1/positional`."""
        return {
            "layer": self.index,
            "span": "full" if self.window is None else self.window,
            "chunked": self.chunked,
            "rotary": self.profile is not None or self.learned is not None,
            "rotary_dim": 0 if self.profile is None else self.profile.rotary_dim,
            "map": self.map,
            "profile": None if self.profile is None else _short(self.profile),
            "query_scale": None if self.query_scale is None else asdict(self.query_scale),
            "learned": self.learned,
            "bias": None if self.bias is None else self.bias.kind,
            "cache": layer_contract(
                self.profile, self.learned, self.bias, scaled=self.query_scale is not None
            ),
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
        return tuple(layer for layer in self.layers if layer.profile and layer.profile == self.profile)

    @property
    def identity(self) -> tuple[str, ...]:
        """What tells blocks apart (`cache.identity`): all tokens so far, and what of a request moves keys.

        vLLM adds its own, such as an adapter and a salt.
        """
        moving = {"rope": self.mapped, "qgpm": self.modulated}
        return ("tokens", *(field for field, layers in moving.items() if layers))

    def describe(self) -> dict[str, Any]:
        """JSON for `GET /v1/positional`; `inverse_frequencies` and numbers of every profile in use."""
        profiles = {_short(p): p.describe() for p in (layer.profile for layer in self.layers) if p}
        return {
            "layers": [layer.describe() for layer in self.layers],
            "profile": None if self.profile is None else _short(self.profile),
            "profiles": profiles,
            "identity": list(self.identity),
        }


def _short(profile: Profile) -> str:
    return profile.digest.hex()[:16]


def read_plan(model: nn.Module, config: VllmConfig, device: torch.device) -> LayerPlan:
    """Measure the plan of a loaded model, which every rank does for itself, before it is compiled.

    Raises UnsupportedModelError, naming what is not covered, or the layer that does other than its
    configuration says.
    """
    refuse_by_name(config)
    attentions = {n: m for n, m in model.named_modules() if isinstance(m, AttentionLayerBase)}
    for name, attention in attentions.items():
        _check_attention(name, attention)
    names = sorted(attentions, key=extract_layer_index)
    expected = config.model_config.hf_text_config.num_hidden_layers
    if [extract_layer_index(name) for name in names] != list(range(expected)):
        raise UnsupportedModelError(f"{len(names)} attention layers found where the config has {expected}")
    declared = declarations(config)
    for index, name in enumerate(names):
        _check_slopes(name, attentions[name], declared[index])
    measured = measure(model, names, config, device)
    layers = tuple(
        plan_layer(
            index,
            name,
            _span(attentions[name]),
            declared[index],
            measured[index],
            lower=index < expected // 2,
            dtype=config.model_config.dtype,
        )
        for index, name in enumerate(names)
    )
    for layer in layers:
        _check_length(layer, model, config.model_config.max_model_len)
    return LayerPlan(layers, _main_profile(layers))


def _main_profile(layers: tuple[Layer, ...]) -> Profile | None:
    full = {layer.profile for layer in layers if layer.profile and layer.window is None}
    if len(full) > 1:
        raise UnsupportedModelError("the full-attention layers do not all rotate by one RoPE profile")
    candidates = full or {layer.profile for layer in layers if layer.profile}
    return candidates.pop() if len(candidates) == 1 else None


def refuse_by_name(config: VllmConfig) -> None:
    """What a config alone shows is not covered; raises UnsupportedModelError, naming it."""
    model = config.model_config
    if model.uses_mrope:
        raise UnsupportedModelError(f"{model.architecture} rotates by M-RoPE: not covered")
    check_windows(config)


def _check_attention(name: str, attention: nn.Module) -> None:
    if not isinstance(attention, Attention) or attention.attn_type != AttentionType.DECODER:
        raise UnsupportedModelError(f"{name} is {type(attention).__name__}, not decoder self-attention")
    if attention.kv_sharing_target_layer_name is not None:
        raise UnsupportedModelError(f"{name} reads the cache of {attention.kv_sharing_target_layer_name}")


def _check_slopes(name: str, attention: Any, declared: Declaration) -> None:
    sloped = getattr(attention.impl, "alibi_slopes", None) is not None
    if sloped != (declared.bias is not None and declared.bias.kind == "alibi"):
        found = "has ALiBi's slopes, which its config lacks" if sloped else "lacks its config's ALiBi slopes"
        raise UnsupportedModelError(f"{name} {found}")


def _span(attention: Any) -> Span:
    if isinstance(attention, ChunkedLocalAttention):
        return attention.attention_chunk_size, True
    return attention.sliding_window, False


def plan_layer(
    index: int,
    name: str,
    span: Span,
    declared: Declaration,
    measured: Measured,
    *,
    lower: bool,
    dtype: torch.dtype,
) -> Layer:
    """A layer that does what its configuration says; raises UnsupportedModelError, naming it, for another.

    `name` and `span` are its attention module's. A global rotary layer takes the broad map where it is among
    the `lower` ⌊n/2⌋ of all layers, else the sharp one (QGPM paper, section 4.4). One with a bias takes none:
    it goes by distances that no map changes; nor does one whose frequencies are among its weights.
    """
    tolerance = _TOLERANCE[dtype]
    if span != (declared.window, declared.chunked):
        raise UnsupportedModelError(
            f"layer {index} attends {_words(span)}, and its config says "
            f"{_words((declared.window, declared.chunked))}"
        )
    _check_motion(index, declared, measured, tolerance)
    _check_queries(index, declared.query_scale, measured, tolerance)
    profile = None
    if declared.profile is not None and measured.rotation is not None:
        profile = _checked_profile(index, declared.profile, declared.paired, measured.rotation)
    window, chunked = span
    modulated = profile is not None and window is None and declared.bias is None
    return Layer(
        index,
        name,
        window,
        profile,
        ("broad" if lower else "sharp") if modulated else "standard",
        chunked,
        declared.query_scale,
        measured.bare,
        declared.learned,
        declared.bias,
    )


def _words(span: Span) -> str:
    window, chunked = span
    if window is None:
        return "to all tokens"
    return f"inside chunks of {window} tokens" if chunked else f"to {window} tokens"


def _check_motion(index: int, declared: Declaration, measured: Measured, tolerance: float) -> None:
    """Keys follow positions where the layer rotates, by its rotation, and nowhere else."""
    if not measured.drift <= tolerance:
        raise UnsupportedModelError(
            f"layer {index}: its keys depend on positions by other than its rotary module "
            f"(by {measured.drift:.2g})"
        )
    if not measured.learned <= tolerance:
        raise UnsupportedModelError(
            f"layer {index} turns by other than its weights say (by {measured.learned:.2g})"
        )
    # Weights may turn little, and what they turn by was compared just now.
    rotates = measured.motion > (0.0 if declared.learned in ("spectrum", "plane") else tolerance)
    if rotates != declared.rotates:
        raise UnsupportedModelError(
            f"layer {index} {'rotates' if rotates else 'does not rotate'} its keys, and its config says that "
            f"it {'does not' if rotates else 'does'}"
        )


def _check_queries(index: int, declared: QueryScale | None, measured: Measured, tolerance: float) -> None:
    """Without rotation queries follow positions by the declared factor only."""
    for position, factor in measured.factors:
        expected = 1.0 if declared is None else declared.at(position) / declared.at(0)
        if not abs(factor - expected) <= tolerance * expected:
            raise UnsupportedModelError(
                f"layer {index} multiplies the queries of position {position} by {factor:.4g}, and its "
                f"config says by {expected:.4g}"
            )
    if not measured.residue <= tolerance:
        raise UnsupportedModelError(f"layer {index}: its queries depend on positions by more than a factor")


def _checked_profile(index: int, declared: Profile, paired: bool, rotation: Rotation) -> Profile:
    """The declared profile with the measured pairing; by any other rotation the model is refused."""
    if rotation.rotary_dim != declared.rotary_dim:
        raise UnsupportedModelError(
            f"layer {index} rotates {rotation.rotary_dim} dimensions, its config {declared.rotary_dim}"
        )
    candidates = [declared] if paired else [replace(declared, pairing=pairing) for pairing in _PAIRINGS]
    errors = [rotation.error(profile) for profile in candidates]
    error, profile = min(zip(errors, candidates, strict=True), key=lambda found: found[0])
    if not error <= _TOLERANCE[rotation.dtype] * max(1.0, declared.attention_factor):
        raise UnsupportedModelError(
            f"layer {index} rotates by other angles than its config declares (by {error:.2g})"
        )
    return profile


def _check_length(layer: Layer, model: nn.Module, max_length: int) -> None:
    if layer.profile is None:
        return
    positions = len(stock_table(model.get_submodule(f"{layer.owner}.rotary_emb")))
    if positions < max_length:
        raise UnsupportedModelError(
            f"layer {layer.index} has rotary rows for {positions} positions: "
            f"--max-model-len must not be {max_length}"
        )
