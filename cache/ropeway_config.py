"""The architecture as a transformers configuration of type `ropeway`."""

import json
from collections.abc import Iterable, Mapping
from dataclasses import fields
from functools import lru_cache
from typing import Any

from transformers import AutoConfig, GenerationConfig, PreTrainedConfig

from cache.architecture_config import MODEL_TYPE, Architecture, ArchitectureError, shared_rules
from cache.translation import SMOLLM3, rule_fields, translated

# What a configuration may hold beside the architecture; none of it changes what the model computes.
_KNOWN_BESIDE = frozenset(
    {
        *(field.name for field in fields(PreTrainedConfig)),
        *GenerationConfig._get_default_generation_params(),
        *("model_type", "torch_dtype", "name_or_path", "num_labels", "output_attentions"),
        *("attn_implementation", "experts_implementation", "use_cache", "per_layer_config"),
        *("bos_token_id", "eos_token_id", "pad_token_id", "sep_token_id", "decoder_start_token_id"),
        *("initializer_range", "attention_dropout", "quantization_config", "compression_config"),
        *("head_dtype", "auto_map"),
    }
)


class RopewayConfig(PreTrainedConfig):
    """A `config.json` of our architecture; raises ArchitectureError for what it does not know."""

    model_type = MODEL_TYPE
    has_no_defaults_at_init = True

    def __init__(self, **values: Any) -> None:
        own = {name: values.pop(name) for name in Architecture.model_fields if name in values}
        _check_names(values.keys(), values)
        architecture = Architecture.read({name: value for name, value in own.items() if value is not None})
        for name, value in architecture.model_dump(mode="json").items():
            setattr(self, name, value)
        super().__init__(**values)

    @property
    def architecture(self) -> Architecture:
        """The architecture as the fields now say it; raises ArchitectureError where they were set wrongly."""
        values = {name: getattr(self, name) for name in Architecture.model_fields}
        return _read(json.dumps({name: value for name, value in values.items() if value is not None}))

    @property
    def layer_types(self) -> list[str]:
        """By which vLLM and transformers tell layers with a window from global ones."""
        return [layer.span for layer in self.architecture.every_layer]

    @property
    def rope_parameters(self) -> dict[str, Any] | None:
        """The rules by layer type, where a type's rotated layers share one; None where no layer rotates.

        To set it replaces the rule of the named types' rotated layers, or of all by a single rule. It never
        makes a layer rotate, nor stops one.
        """
        return shared_rules(self.architecture.every_layer) or None

    @rope_parameters.setter
    def rope_parameters(self, rules: Mapping[str, Any] | None) -> None:
        layers = [layer.model_dump(mode="json") for layer in self.architecture.every_layer]
        for layer, span in zip(layers, self.layer_types, strict=True):
            rule = (rules or {}).get(span) if _is_by_type(rules) else rules
            if layer["base"] is not None and rule:
                layer.update(rule_fields(rule))
        self.layers, self.layer_pattern = layers, None

    def update(self, config_dict: dict[str, Any]) -> None:
        """Set fields, as overrides do; raises ArchitectureError for names that mean nothing."""
        _check_names(config_dict.keys() - Architecture.model_fields.keys() - {"rope_parameters"}, config_dict)
        super().update(config_dict)

    def convert_rope_params_to_dict(self, **kwargs: Any) -> dict[str, Any]:
        """Nothing to convert: there is no other spelling."""
        return kwargs

    def standardize_rope_params(self) -> None:
        """Nothing to do: a layer's rule is complete."""

    def validate_rope(self) -> None:
        """Nothing to do: the architecture checks itself."""


def _check_names(names: Iterable[str], values: Mapping[str, Any]) -> None:
    for name in sorted(names):
        if name not in _KNOWN_BESIDE and not name.startswith("_"):
            raise ArchitectureError(name, "is unknown", values[name])


@lru_cache(maxsize=64)
def _read(text: str) -> Architecture:
    return Architecture.read(json.loads(text))


def _is_by_type(rules: Mapping[str, Any] | None) -> bool:
    return all(isinstance(rule, Mapping) for rule in (rules or {}).values())


def architecture_of(config: Any) -> Architecture | None:
    """The architecture of a text configuration that `RopewayForCausalLM` serves; None for another's.

    Raises ArchitectureError for what it does not cover.
    """
    if isinstance(config, RopewayConfig):
        return config.architecture
    return translated(config) if config.model_type == SMOLLM3 else None


AutoConfig.register(MODEL_TYPE, RopewayConfig, exist_ok=True)
