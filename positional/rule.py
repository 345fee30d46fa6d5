"""What a configuration or a request says of RoPE: rules, and the profiles that they give a length."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any

from positional.modulation import ENDLESS
from positional.profile import Pairing, ParameterValue, Profile, ProfileError
from positional.scaling import BASE, ORIGINAL, read_scaling

Parameters = tuple[tuple[str, ParameterValue], ...]

# Keys beyond any use overflow, and what is no number outlives its request in the cache's unwritten slots.
ATTENTION_FACTORS = (0.01, 100.0)
_WITH_ORIGINAL = ("yarn", "llama3", "longrope")


@dataclass(frozen=True, slots=True)
class Shape:
    """What of a model no rule replaces.

    `rotary_dim`: rotated dimensions of a head; `positions`: the configuration's `max_position_embeddings`;
    `window`: the tokens that the model sees without scaling.
    """

    rotary_dim: int
    pairing: Pairing
    positions: int
    window: int


@dataclass(frozen=True, slots=True)
class Rule:
    """A base and a scaling rule on one model; `window`: the tokens that it covers."""

    shape: Shape
    base: float
    rope_type: str
    parameters: Parameters
    window: int

    def profile(self, length: int) -> Profile:
        """The profile of a request of at most `length` tokens, prompt and answer together.

        Dynamic NTK, whose frequencies change as a sequence grows, is fixed at that length, and so is
        longrope's choice between its short and its long factors: a key that is cached keeps the rotation
        that the request's last token sees. Raises ProfileError.
        """
        match self.rope_type:
            case "dynamic" if length <= self.shape.window:
                return _profile(replace(self, rope_type="default", parameters=()), 1)
            case "dynamic":
                return _profile(self, length)
            case "longrope":
                original = self.original
                return _profile(self, original if length <= original else original + 1)
        return _profile(self, 1)

    @property
    def original(self) -> int:
        """The window that the rule scales."""
        value = dict(self.parameters).get(ORIGINAL)
        return value if isinstance(value, int) else self.shape.window

    @property
    def factor(self) -> float:
        """What the rule multiplies its original window by; 1 where it is unscaled."""
        value = dict(self.parameters).get("factor")
        if isinstance(value, int | float):
            return float(value)
        # Without a factor transformers takes the ratio of the two lengths.
        return 1.0 if self.rope_type == "default" else self.shape.positions / self.original

    @property
    def scaled_window(self) -> int:
        """The original window times the factor."""
        return _whole(self.original * self.factor)

    def settled(self, length: int) -> "Rule":
        """The rule with longrope's choice made at a length, whatever a request's own length is."""
        if self.rope_type != "longrope":
            return self
        parameters = dict(self.parameters)
        chosen = parameters["short_factor" if length <= self.original else "long_factor"]
        # Named, so that it no longer hangs on the configuration's positions.
        factor = self.profile(length).attention_factor
        return replace(
            self,
            parameters=_sorted(
                parameters | {"short_factor": chosen, "long_factor": chosen, "attention_factor": factor}
            ),
        )

    def paired(self, pairing: Pairing) -> "Rule":
        """The same rule on the same model of that pairing."""
        return replace(self, shape=replace(self.shape, pairing=pairing))

    def rope_parameters(self) -> dict[str, Any]:
        """The rule in transformers' spelling."""
        parameters = {n: list(v) if isinstance(v, tuple) else v for n, v in self.parameters}
        return {"rope_theta": self.base, "rope_type": self.rope_type, **parameters}

    def describe(self) -> dict[str, Any]:
        """JSON: base and scaling as a request may give them, and the window in tokens."""
        scaling = self.rope_parameters()
        return {"base": scaling.pop("rope_theta"), "scaling": scaling, "window": self.window}


@dataclass(frozen=True, slots=True)
class ModelRope:
    """A model's own rule, as its configuration says it, and its unscaled one.

    `native` covers `window` tokens; of a longrope model it has the short factors.
    """

    own: Rule
    native: Rule

    @staticmethod
    def from_config(
        hf_text_config: Any, *, layer_type: str | None = None, pairing: Pairing = "half"
    ) -> "ModelRope":
        """Read a transformers configuration, in either spelling.

        `layer_type` picks the rule that requests may replace from a configuration of several. Raises
        ProfileError for a rule that is missing, incomplete or unknown.
        """
        read = Profile.from_config(hf_text_config, layer_type=layer_type, pairing=pairing)
        rope_type, base = read.rope_type, read.base
        own_parameters = {name: value for name, value in read.parameters if value is not None}
        positions = int(hf_text_config.max_position_embeddings)
        native_window = _native_window(hf_text_config, rope_type, own_parameters)
        shape = Shape(read.rotary_dim, pairing, positions, native_window)
        native = Rule(shape, base, "default", (), shape.window)
        if rope_type == "default":
            return ModelRope(native, native)
        own = Rule(shape, base, rope_type, _sorted(own_parameters), positions)
        own = replace(own, window=max(own.scaled_window, positions))
        if rope_type == "longrope":
            native = replace(own.settled(shape.window), window=shape.window)
        return ModelRope(own, native)

    @property
    def window(self) -> int:
        """Tokens that the model covers without scaling."""
        return self.native.window

    @property
    def declared(self) -> Rule | None:
        """The scaled rule that the configuration declares."""
        return None if self.own.rope_type == "default" else self.own

    def rule(self, base: object = None, scaling: object = None) -> Rule:
        """The model's own rule with another base, another scaling or both; None keeps its own.

        A scaled rule covers its original window (the native one where it names none) times its factor; an
        unscaled one of a higher base as much more as that stretches the slowest plane. Raises ProfileError,
        naming `base` or `scaling.…`.
        """
        if base is not None and not BASE.holds(base):
            raise ProfileError("base", base, BASE.words)
        new_base = self.own.base if base is None else float(base)  # type: ignore[arg-type]
        rope_type, parameters = self.own.rope_type, dict(self.own.parameters)
        if scaling is not None:
            rope_type, parameters = read_scaling(scaling, self.own.shape.rotary_dim // 2)
            if rope_type in _WITH_ORIGINAL:
                parameters.setdefault(ORIGINAL, self.window)
            self._check_factor(rope_type, parameters)
        rule = Rule(self.own.shape, new_base, rope_type, _sorted(parameters), self.own.window)
        if rope_type == "default":
            rule = replace(rule, window=self._stretched(new_base))
        elif (rope_type, rule.parameters) != (self.own.rope_type, self.own.parameters):
            rule = replace(rule, window=rule.scaled_window)
        _check_profiles(rule, "base" if scaling is None else "scaling", base if scaling is None else scaling)
        return rule

    def paired(self, pairing: Pairing) -> "ModelRope":
        """The same rules on the same model of that pairing."""
        return ModelRope(self.own.paired(pairing), self.native.paired(pairing))

    def _check_factor(self, rope_type: str, parameters: Mapping[str, Any]) -> None:
        """Longrope may leave its factor to the configuration's two lengths, where they differ."""
        if rope_type != "longrope" or "factor" in parameters:
            return
        if self.own.shape.positions <= parameters[ORIGINAL]:
            raise ProfileError("scaling.factor", None, "is missing; this model has none of its own")

    def _stretched(self, base: float) -> int:
        """The native window times what a base does to the slowest plane, base^(−(d−2)/d)."""
        width = self.own.shape.rotary_dim
        return _whole(self.window * max(1.0, (base / self.own.base) ** ((width - 2) / width)))


def main_layer_type(hf_text_config: Any) -> str | None:
    """The layer type whose rule requests may replace: full attention, or the only one; None without types."""
    parameters = getattr(hf_text_config, "rope_parameters", None) or {}
    rules = [name for name, value in parameters.items() if isinstance(value, Mapping)]
    if not rules:
        return None
    return "full_attention" if "full_attention" in rules else rules[0]


def counts_scaled_positions(hf_text_config: Any) -> bool:
    """Whether `max_position_embeddings` beside a linear or dynamic rule is already the scaled length."""
    return "gemma3" in str(getattr(hf_text_config, "model_type", ""))


def _native_window(config: Any, rope_type: str, parameters: Mapping[str, Any]) -> int:
    positions: int = config.max_position_embeddings
    if rope_type in _WITH_ORIGINAL:
        return int(parameters[ORIGINAL])
    if rope_type != "default" and counts_scaled_positions(config):
        return int(positions / parameters["factor"])
    return positions


def _whole(tokens: float) -> int:
    return int(min(tokens, ENDLESS))


def _check_profiles(rule: Rule, field: str, value: object) -> None:
    try:
        profiles = [rule.profile(length) for length in (1, rule.window)]
    except ProfileError as error:
        raise ProfileError(
            field, value, f"gives no usable frequencies ({error.field} {error.reason})"
        ) from error
    least, most = ATTENTION_FACTORS
    for factor in (profile.attention_factor for profile in profiles):
        if not least <= factor <= most:
            raise ProfileError(
                field,
                value,
                f"gives an attention factor of {factor:g}, which must lie between {least:g} and {most:g}",
            )


def _sorted(parameters: Mapping[str, Any]) -> Parameters:
    return tuple(sorted((n, tuple(v) if isinstance(v, list) else v) for n, v in parameters.items()))


class _RuleConfig:
    """What transformers' RoPE functions read of a configuration, for one rule."""

    num_attention_heads = 1

    def __init__(self, rule: Rule) -> None:
        self.head_dim = self.hidden_size = rule.shape.rotary_dim
        self.rope_parameters: Mapping[str, Any] = rule.rope_parameters()
        # Dynamic NTK scales beyond them.
        self.max_position_embeddings = (
            rule.shape.window if rule.rope_type == "dynamic" else rule.shape.positions
        )

    def standardize_rope_params(self) -> None:
        """Nothing to do: a rule is complete."""


@lru_cache(maxsize=1024)
def _profile(rule: Rule, length: int) -> Profile:
    return Profile.from_config(_RuleConfig(rule), max_length=length, pairing=rule.shape.pairing)
