"""What a start makes of RoPE: the rules that are served, and what vLLM must be told to load them."""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from vllm.config import ModelConfig
from vllm.engine.arg_utils import AsyncEngineArgs
from vllm.transformers_utils.config import get_config, get_hf_text_config

from cache.unsupported import UnsupportedModelError
from positional.profile import ProfileError
from positional.rule import ModelRope, Rule, counts_scaled_positions, main_layer_type
from server.flags import FlagError
from server.rope_choice import AutoRule, ServedRope, Wish

# vLLM's word for the longest length that the cache's memory holds.
_AS_MEMORY_ALLOWS = -1
# Float32 frequencies may differ by a rounding.
_SAME = 1e-5
_BASE_ELSEWHERE = "vLLM reads the base from rope_parameters only: give rope_theta there"


@dataclass(frozen=True, slots=True)
class RopeStart:
    """`served`: the rules, from the model's own configuration; the rest are vLLM's engine arguments.

    `served` is None for a model without a rule that requests could replace; `max_model_len` is None where
    vLLM derives it as ever.
    """

    served: ServedRope | None
    hf_overrides: dict[str, Any]
    max_model_len: int | None


def start_rope(args: AsyncEngineArgs, automatic: bool, scaling: Mapping[str, Any] | None) -> RopeStart:
    """Read the model's configuration and settle its rules.

    `automatic`: the policy `auto` for requests that do not say; `scaling`: the declared scaled rule in
    transformers' spelling, `rope_theta` included where the base changes too. Raises FlagError for flags that
    do not fit the model, and OSError or ValueError for a model that cannot be read.
    """
    return settle(read_config(args), args.hf_overrides, args.max_model_len, automatic, scaling)


def read_config(args: AsyncEngineArgs) -> Any:
    """The model's configuration as vLLM reads it, with the user's `--hf-overrides` applied."""
    overrides = args.hf_overrides
    for name in ("rope_theta", "rotary_emb_base"):
        if name in overrides:
            raise FlagError("--hf-overrides", f"{name}: {_BASE_ELSEWHERE}")
    config = get_config(
        args.hf_config_path or args.model,
        args.trust_remote_code,
        args.revision,
        args.code_revision,
        args.config_format,
        hf_overrides_kw={n: value for n, value in overrides.items() if not isinstance(value, dict)},
        token=args.hf_token,
    )
    # Its own code for the rest, which needs nothing of a whole ModelConfig.
    ModelConfig.__new__(ModelConfig)._apply_dict_overrides(
        config, {n: value for n, value in overrides.items() if isinstance(value, dict)}
    )
    return config


def settle(
    config: Any,
    hf_overrides: Mapping[str, Any],
    max_model_len: int | None,
    automatic: bool,
    scaling: Mapping[str, Any] | None,
) -> RopeStart:
    """The rules and engine arguments for a configuration; raises FlagError and ProfileError."""
    text = get_hf_text_config(config)
    if not getattr(text, "rope_parameters", None):
        if automatic or scaling is not None:
            flag = "--rope-policy" if automatic else "--rope-scaling"
            raise FlagError(flag, "the model has no RoPE rule that its layers share")
        return RopeStart(None, dict(hf_overrides), max_model_len)
    layer_type = main_layer_type(text)
    model = _model(text, layer_type, hf_overrides)
    declared = model.declared if scaling is None else _declared(model, scaling)
    if automatic and declared is None:
        raise FlagError(
            "--rope-policy", "auto needs a scaled rule, and the model declares none: add --rope-scaling"
        )
    length = _length(text, model, declared, max_model_len, automatic or scaling is not None)
    loaded = model.native if automatic else _as_vllm_loads(model, length or 0)
    changes: dict[str, Any] = {}
    if automatic and model.declared is not None:
        changes["rope_parameters"] = _native_parameters(text, layer_type, model)
    if length is not None:
        changes |= _positions(text, model, loaded, length)
    served = ServedRope(model, declared, _default(model, declared, loaded, automatic), loaded)
    overrides = _merged(config, text, hf_overrides, changes)
    return RopeStart(served, overrides, max_model_len if max_model_len == _AS_MEMORY_ALLOWS else length)


def _as_vllm_loads(model: ModelRope, length: int) -> Rule:
    """The model's own rule, as vLLM's module of that length holds it."""
    # Its dynamic NTK never scales: it reckons with as many trained positions as its table has rows.
    return model.native if model.own.rope_type == "dynamic" else model.own.settled(length)


def _default(model: ModelRope, declared: Rule | None, loaded: Rule, automatic: bool) -> Wish:
    if automatic and declared is not None:
        return AutoRule(model.native, declared)
    return model.own if model.own.rope_type == "dynamic" else loaded


def as_loaded(served: ServedRope | None, plan: Mapping[str, Any]) -> ServedRope | None:
    """The rules with the pairing of the loaded model, whose description `plan` is.

    None for a model without a main profile, or without rules, which cannot be replaced. Raises
    UnsupportedModelError where its main layers rotate by another profile than was told to them.
    """
    if plan["profile"] is None or served is None:
        return None
    found = plan["profiles"][plan["profile"]]
    paired = served.paired(found["pairing"])
    expected = paired.loaded_profile
    if not np.allclose(
        [found["attention_factor"], *found["inverse_frequencies"]],
        [expected.attention_factor, *expected.frequencies],
        rtol=_SAME,
        atol=0,
    ):
        raise UnsupportedModelError("the model was loaded with another RoPE rule than its configuration says")
    return paired


def _model(text: Any, layer_type: str | None, hf_overrides: Mapping[str, Any]) -> ModelRope:
    try:
        return ModelRope.from_config(text, layer_type=layer_type)
    except ProfileError as error:
        if {"rope_parameters", "rope_scaling"} & hf_overrides.keys():
            raise FlagError("--hf-overrides", f"{error}; it must hold a whole rule") from error
        raise


def _declared(model: ModelRope, scaling: Mapping[str, Any]) -> Rule:
    parameters = dict(scaling)
    base = parameters.pop("rope_theta", None)
    try:
        rule = model.rule(base, parameters)
    except ProfileError as error:
        name = "rope_theta" if error.field == "base" else error.field.removeprefix("scaling.")
        raise FlagError("--rope-scaling", f"{name} {error.reason} (got {error.value!r})") from error
    if rule.window <= model.window:
        raise FlagError(
            "--rope-scaling",
            f"it covers {rule.window} tokens, no more than the model's own window of {model.window}",
        )
    return rule


def _length(
    text: Any, model: ModelRope, declared: Rule | None, max_model_len: int | None, wanted: bool
) -> int | None:
    """The longest request: what was asked for, else the window of a rule that the flags ask for.

    None where vLLM's own choice may stand. Raises FlagError.
    """
    if max_model_len is None or max_model_len == _AS_MEMORY_ALLOWS:
        if wanted and declared is not None:
            return declared.window
        if model.own.rope_type == "dynamic":
            return model.own.window
        if model.own.rope_type == "longrope":
            # As vLLM derives it, said here since longrope's factors follow from it.
            return int(getattr(text, "original_max_position_embeddings", model.own.shape.positions))
        return None
    rules = [model.own] if declared is None else [model.own, declared]
    longest = max(rules, key=lambda rule: rule.window)
    if max_model_len > longest.window:
        raise FlagError(
            "--max-model-len",
            f"{max_model_len} tokens are more than the {longest.window} that the model's RoPE rule "
            f"({longest.rope_type}) covers; --rope-scaling declares one that covers more",
        )
    return max_model_len


def _native_parameters(text: Any, layer_type: str | None, model: ModelRope) -> dict[str, Any]:
    """`rope_parameters` with the unscaled rule in place of the model's own."""
    own = text.rope_parameters if layer_type is None else text.rope_parameters[layer_type]
    native = model.native.rope_parameters()
    if share := own.get("partial_rotary_factor"):
        native["partial_rotary_factor"] = share
    if factor := native.get("attention_factor"):
        # vLLM's names of longrope's attention factor, which it else derives from the raised positions.
        native |= {"short_mscale": factor, "long_mscale": factor}
    return native if layer_type is None else {**text.rope_parameters, layer_type: native}


def _positions(text: Any, model: ModelRope, loaded: Rule, length: int) -> dict[str, int]:
    """`max_position_embeddings` such that vLLM takes the length and its tables have a row for every token."""
    needed, positions = length, model.own.shape.positions
    if loaded.rope_type == "linear" and not counts_scaled_positions(text):
        needed = math.ceil(length / loaded.factor)
    fixed = _fixed_rows(model, loaded)
    if fixed is not None and length > fixed:
        raise FlagError(
            "--max-model-len",
            f"{length} tokens are more than the {fixed} that the model's own {loaded.rope_type} rule has "
            "rows for; --rope-policy auto loads the model unscaled and takes more",
        )
    return {"max_position_embeddings": needed} if needed > positions else {}


def _fixed_rows(model: ModelRope, loaded: Rule) -> int | None:
    """Rows of vLLM's table where they do not follow `max_position_embeddings`, or it alone decides more."""
    if loaded.rope_type == "yarn":
        return loaded.scaled_window
    if loaded.rope_type == "longrope" and loaded != model.native:
        # Other positions would give another attention factor.
        return model.own.shape.positions
    return None


def _merged(
    config: Any, text: Any, hf_overrides: Mapping[str, Any], changes: Mapping[str, Any]
) -> dict[str, Any]:
    """The user's overrides with ours, which go to the part of the configuration that is the text model's."""
    if not changes:
        return dict(hf_overrides)
    if text is config:
        return {**hf_overrides, **changes}
    name = next(name for name, part in vars(config).items() if part is text)
    return {**hf_overrides, name: {**hf_overrides.get(name, {}), **changes}}
