"""The configuration of `RopewayForCausalLM`: a Llama whose every layer says how it rotates and what it sees.

`config.json` has `"architectures": ["RopewayForCausalLM"]`, `"model_type": "ropeway"`, the fields of
`Architecture` and those that every transformers configuration has (token ids, dtype, quantisation). Nothing
is inferred from something else: a layer without a window has `"window": null`, one without rotation
`"rotary": "none"`. Weights have the names of a Llama checkpoint, with `self_attn.q_norm.weight` and
`self_attn.k_norm.weight` ([head_dim]) where a layer has `qk_norm`, and what learned rotations and biases need
(`cache.learned_rotation`, `cache.logit_bias`).
"""

import json
from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Literal, Self

import torch
from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from cache.bias_config import Bias, BiasError
from positional.profile import Pairing, Profile, ProfileError
from positional.scaling import BASE, ORIGINAL, read_scaling

NAME = "RopewayForCausalLM"
MODEL_TYPE = "ropeway"
_STRICT = ConfigDict(strict=True, extra="forbid", frozen=True, allow_inf_nan=False)
_NEEDS_ORIGINAL = ("yarn", "llama3", "longrope")
_RULE_FIELDS = ("base", "scaling")
_ROTARY_FIELDS = ("rotary_fraction", *_RULE_FIELDS, "pairing", "basis", "spectrum")

Rotary = Literal["full", "partial", "plane", "none"]
Learned = Literal["tied", "per_head"]
Count = Annotated[int, Field(ge=1, lt=2**31)]
Positive = Annotated[float, Field(gt=0)]


class ArchitectureError(ValueError):
    """A configuration that describes no model of ours: the field, what is wrong, the value."""

    def __init__(self, field: str, message: str, value: object = None) -> None:
        super().__init__(f"{field}: {message}" + ("" if value is None else f" (got {value!r})"))
        self.field = field
        self.message = message
        self.value = value


class QueryScale(BaseModel):
    """A factor on the queries of a layer without rotation, by absolute position (`query_factors`)."""

    model_config = _STRICT

    floor_scale: Positive
    attn_scale: Positive


def query_factors(positions: torch.Tensor, floor_scale: float, attn_scale: float) -> torch.Tensor:
    """1 + attn_scale · ln(1 + ⌊(p + 1) / floor_scale⌋) of positions p, float32 (Llama 4's rule)."""
    return torch.log1p(torch.floor((positions.float() + 1) / floor_scale)) * attn_scale + 1


class LayerConfig(BaseModel):
    """One decoder layer.

    `window`: the tokens that it sees, its own included; null is global. `rotary_fraction`: the share of a
    head's dimensions, from the first, that "partial" rotates; "plane" rotates one learned plane of each head.
    `base` and `scaling` (transformers' `rope_parameters` without `rope_theta`; null is unscaled) are its RoPE
    rule. `pairing` defaults to "half". `basis`: its planes lie in a learned orthogonal basis, one for all key
    heads or one for each; `spectrum`: so many learned frequencies, in place of a rule (multiplicative GRAPE).
    `qk_norm`: RMSNorm over each head's query and key, before they are rotated. `bias`: what is added to its
    logits.
    """

    model_config = _STRICT

    rotary: Rotary
    window: Count | None
    rotary_fraction: Annotated[float, Field(gt=0, lt=1)] | None = None
    base: float | None = None
    scaling: dict[str, Any] | None = None
    pairing: Pairing | None = None
    basis: Learned | None = None
    spectrum: Learned | None = None
    qk_norm: bool = False
    query_scale: QueryScale | None = None
    bias: Bias | None = None

    def rotary_dim(self, head_dim: int) -> int:
        """How many of a head's dimensions stand in rotated pairs; 0 without rotation, or in one plane."""
        if self.rotary in ("none", "plane"):
            return 0
        return round(head_dim * (self.rotary_fraction or 1))

    @property
    def learned(self) -> tuple[str, ...]:
        """The fields by which it rotates or biases by more than a RoPE rule."""
        named = {"basis": self.basis, "spectrum": self.spectrum, "bias": self.bias}
        plane = ("rotary",) if self.rotary == "plane" else ()
        return (*plane, *(field for field, value in named.items() if value is not None))

    @property
    def has_rule(self) -> bool:
        """Whether it rotates by a RoPE rule, not by frequencies among its weights."""
        return self.rotary in ("full", "partial") and self.spectrum is None

    @property
    def span(self) -> str:
        """transformers' name of the layer's type, which says nothing but whether it has a window."""
        return "full_attention" if self.window is None else "sliding_attention"

    @property
    def rope_parameters(self) -> dict[str, Any] | None:
        """The layer's rule in transformers' spelling; None where it rotates by none."""
        if not self.has_rule:
            return None
        share = {} if self.rotary_fraction is None else {"partial_rotary_factor": self.rotary_fraction}
        return {"rope_theta": self.base, **(self.scaling or {"rope_type": "default"}), **share}


class Architecture(BaseModel):
    """All that decides the model's computation; immutable.

    Layers are given as `layers`, one each, or as `layer_pattern`, which repeats from layer 0 on and may be
    cut by the end. `attention_bias` is that of q, k and v, `output_bias` that of o.
    """

    model_config = _STRICT

    vocab_size: Count
    hidden_size: Count
    intermediate_size: Count
    num_hidden_layers: Count
    num_attention_heads: Count
    num_key_value_heads: Count
    head_dim: Count
    hidden_act: Literal["silu"] = "silu"
    rms_norm_eps: Positive = 1e-6
    max_position_embeddings: Count
    attention_bias: bool = False
    output_bias: bool = False
    mlp_bias: bool = False
    tie_word_embeddings: bool
    layers: Annotated[tuple[LayerConfig, ...], Field(min_length=1)] | None = None
    layer_pattern: Annotated[tuple[LayerConfig, ...], Field(min_length=1)] | None = None

    @staticmethod
    def read(values: Mapping[str, Any]) -> "Architecture":
        """The architecture that JSON values describe; raises ArchitectureError, naming the field."""
        try:
            return Architecture.model_validate_json(json.dumps(dict(values)))
        except ValidationError as error:
            first = error.errors(include_url=False)[0]
            field = ".".join(str(part) for part in first["loc"]) or "config"
            value = first["input"] if isinstance(first["input"], str | int | float) else None
            if cause := first.get("ctx", {}).get("error"):
                raise (
                    cause if isinstance(cause, ArchitectureError) else ArchitectureError(field, str(cause))
                ) from error
            message = "is unknown" if first["type"] == "extra_forbidden" else first["msg"]
            raise ArchitectureError(field, message, value) from error

    @property
    def every_layer(self) -> tuple[LayerConfig, ...]:
        """One entry a layer, the pattern expanded."""
        if self.layers is not None:
            return self.layers
        pattern = self.layer_pattern or ()
        return tuple(pattern[index % len(pattern)] for index in range(self.num_hidden_layers))

    def profile(self, index: int, max_length: int | None = None) -> Profile | None:
        """The RoPE profile of a layer, None where it has none; `max_length` as for Profile.from_config."""
        layer = self.every_layer[index]
        if not layer.has_rule:
            return None
        return Profile.from_config(
            _LayerRule(layer, self), max_length=max_length, pairing=layer.pairing or "half"
        )

    @model_validator(mode="after")
    def _check(self) -> Self:
        if (self.layers is None) == (self.layer_pattern is None):
            raise ArchitectureError("layers", "exactly one of layers and layer_pattern must be given")
        given = self.layers or self.layer_pattern or ()
        if self.layers is not None and len(given) != self.num_hidden_layers:
            raise ArchitectureError("layers", f"must hold {self.num_hidden_layers}, one a layer", len(given))
        if len(given) > self.num_hidden_layers:
            raise ArchitectureError(
                "layer_pattern", f"must not be longer than the {self.num_hidden_layers} layers", len(given)
            )
        if self.num_attention_heads % self.num_key_value_heads:
            raise ArchitectureError(
                "num_key_value_heads",
                f"must divide the {self.num_attention_heads} query heads",
                self.num_key_value_heads,
            )
        name = "layer_pattern" if self.layers is None else "layers"
        for index, layer in enumerate(given):
            _check_layer(layer, f"{name}.{index}", self)
        return self


def _check_layer(layer: LayerConfig, where: str, architecture: Architecture) -> None:
    """What only several fields of a layer together show."""
    if layer.bias is not None:
        try:
            layer.bias.check(architecture.num_attention_heads)
        except BiasError as error:
            raise ArchitectureError(f"{where}.bias.{error.field}", error.reason, error.value) from error
    if layer.rotary == "none":
        _check_absent(layer, where, _ROTARY_FIELDS, "without rotation")
        return
    if layer.query_scale is not None:
        raise ArchitectureError(f"{where}.query_scale", "is for layers without rotation")
    if layer.rotary == "plane":
        _check_absent(layer, where, _ROTARY_FIELDS, "where one plane is rotated")
        return
    if layer.spectrum is not None:
        _check_absent(layer, where, _RULE_FIELDS, "beside a learned spectrum")
    elif not BASE.holds(layer.base):
        raise ArchitectureError(f"{where}.base", BASE.words, layer.base)
    if (layer.rotary == "partial") != (layer.rotary_fraction is not None):
        raise ArchitectureError(
            f"{where}.rotary_fraction", "must be given where rotary is partial, and only there"
        )
    head_dim = architecture.head_dim
    width = layer.rotary_dim(head_dim)
    if width % 2 or width != head_dim * (layer.rotary_fraction or 1):
        raise ArchitectureError(
            f"{where}.rotary_fraction",
            f"must rotate an even whole number of the head's {head_dim} dimensions",
            layer.rotary_fraction,
        )
    if layer.scaling is not None:
        _check_scaling(layer.scaling, where, width // 2)


def _check_absent(layer: LayerConfig, where: str, fields: Sequence[str], why: str) -> None:
    for name in fields:
        if (value := getattr(layer, name)) is not None:
            raise ArchitectureError(f"{where}.{name}", f"must not be given {why}", value)


def _check_scaling(scaling: Mapping[str, Any], where: str, planes: int) -> None:
    try:
        rope_type, parameters = read_scaling(scaling, planes)
    except ProfileError as error:
        raise ArchitectureError(f"{where}.{error.field}", error.reason, error.value) from error
    if rope_type in _NEEDS_ORIGINAL and ORIGINAL not in parameters:
        raise ArchitectureError(f"{where}.scaling.{ORIGINAL}", f"is missing; {rope_type} needs it")


class _LayerRule:
    """What `Profile.from_config` reads of a configuration, for one layer."""

    def __init__(self, layer: LayerConfig, architecture: Architecture) -> None:
        self.rope_parameters: Mapping[str, Any] = layer.rope_parameters or {}
        self.head_dim = self.hidden_size = architecture.head_dim
        self.num_attention_heads = 1
        self.max_position_embeddings = architecture.max_position_embeddings

    def standardize_rope_params(self) -> None:
        """Nothing to do: a layer's rule is complete."""


def shared_rules(layers: Sequence[LayerConfig]) -> dict[str, dict[str, Any]]:
    """transformers' `rope_parameters` by layer type, of those types whose rotated layers share one rule."""
    rules: dict[str, list[dict[str, Any]]] = {}
    for layer in layers:
        if (rule := layer.rope_parameters) is not None and rule not in rules.setdefault(layer.span, []):
            rules[layer.span].append(rule)
    return {span: found[0] for span, found in rules.items() if len(found) == 1}
