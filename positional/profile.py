"""RoPE profiles: immutable rules that give every plane its frequency."""

import copy
import math
import struct
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from hashlib import sha256
from typing import Any, Literal, Protocol, get_args

import torch
from transformers.modeling_rope_utils import ROPE_INIT_FUNCTIONS

Pairing = Literal["half", "interleaved"]
ParameterValue = float | int | bool | str | None | tuple[float, ...]

ROPE_TYPES = ("default", "linear", "dynamic", "yarn", "llama3", "longrope")
_MAGIC = b"RWP1"
_HEAD = struct.Struct("<4s?Q2d")
_NOT_RULE = ("rope_theta", "rope_type", "type", "partial_rotary_factor")


class RopeConfig(Protocol):
    """What a profile reads of a transformers configuration; `rope_parameters` flat or per layer type."""

    rope_parameters: Mapping[str, Any]
    max_position_embeddings: int


class ProfileError(ValueError):
    """A rule that cannot be built: the field, the value and the reason."""

    def __init__(self, field: str, value: object, reason: str) -> None:
        self.field = field
        self.value = value
        self.reason = reason
        super().__init__(f"{field}: {reason} (got {value!r})")


@dataclass(frozen=True, slots=True)
class Profile:
    """A RoPE rule: base, scaling rule with its numbers, rotary width, pairing, attention factor.

    `frequencies` are the planes' inverse frequencies ω_m in radians per position, as float64 numbers;
    `parameters` are the scaling rule's own numbers, by name.
    """

    base: float
    rotary_dim: int
    pairing: Pairing = "half"
    rope_type: str = "default"
    parameters: tuple[tuple[str, ParameterValue], ...] = ()
    attention_factor: float = 1.0
    frequencies: tuple[float, ...] = ()

    def __post_init__(self) -> None:
        pairings = get_args(Pairing)
        if self.pairing not in pairings:
            raise ProfileError("pairing", self.pairing, f"must be one of {', '.join(pairings)}")
        if len(self.frequencies) != self.planes:
            raise ProfileError("frequencies", len(self.frequencies), f"must be {self.planes}, one a plane")
        if not all(math.isfinite(frequency) and frequency > 0 for frequency in self.frequencies):
            raise ProfileError("frequencies", self.frequencies, "must be finite and positive")
        if not (math.isfinite(self.attention_factor) and self.attention_factor > 0):
            raise ProfileError("attention_factor", self.attention_factor, "must be finite and positive")

    @staticmethod
    def rope(base: float, rotary_dim: int, pairing: Pairing = "half") -> "Profile":
        """Unscaled RoPE: ω_m = base^(−2m/d) (QGPM paper, eq. 1). Raises ProfileError."""
        if not (math.isfinite(base) and base > 1):
            raise ProfileError("base", base, "must be a finite number above 1")
        if rotary_dim < 2 or rotary_dim % 2:
            raise ProfileError("rotary_dim", rotary_dim, "must be an even number of at least 2")
        planes = torch.arange(0, rotary_dim, 2, dtype=torch.float64) / rotary_dim
        frequencies = torch.tensor(base, dtype=torch.float64) ** -planes
        return Profile(float(base), rotary_dim, pairing, frequencies=_numbers(frequencies))

    @staticmethod
    def from_config(
        hf_config: RopeConfig,
        *,
        layer_type: str | None = None,
        max_length: int | None = None,
        pairing: Pairing = "half",
    ) -> "Profile":
        """The rule that a transformers configuration declares, with transformers' own frequencies.

        `layer_type` picks one of several rules. Rules whose frequencies depend on the sequence's length
        are fixed at `max_length` tokens (default: the configuration's positions): longrope takes its long
        factors beyond the original positions, dynamic NTK its base for that length.
        Raises ProfileError for a rule that is missing or unknown.
        """
        config = copy.deepcopy(hf_config)
        parameters = _layer_parameters(config, layer_type)
        rope_type = str(parameters.get("rope_type", "default"))
        if rope_type not in ROPE_TYPES:
            raise ProfileError("rope_type", rope_type, f"must be one of {', '.join(ROPE_TYPES)}")
        rotary_dim = int(_head_dim(config) * float(parameters.get("partial_rotary_factor") or 1.0))
        plain = Profile.rope(float(parameters["rope_theta"]), rotary_dim, pairing)
        if rope_type == "default":
            return plain
        frequencies, attention_factor = _scaled(
            config, rope_type, layer_type, max_length or config.max_position_embeddings
        )
        return Profile(
            plain.base,
            rotary_dim,
            pairing,
            rope_type,
            tuple(sorted((k, _frozen(v)) for k, v in parameters.items() if k not in _NOT_RULE)),
            float(attention_factor),
            _numbers(frequencies),
        )

    @property
    def planes(self) -> int:
        """Number of rotated pairs."""
        return self.rotary_dim // 2

    @property
    def inverse_frequencies(self) -> torch.Tensor:
        """ω_m, float64 [planes]."""
        return torch.tensor(self.frequencies, dtype=torch.float64)

    def to_bytes(self) -> bytes:
        """Every number that decides a rotation: magic, pairing, planes, base, attention factor, frequencies.

        The names and numbers that the frequencies were made from are not among them.
        """
        head = _HEAD.pack(_MAGIC, self.pairing == "half", self.planes, self.base, self.attention_factor)
        return head + struct.pack(f"<{self.planes}d", *self.frequencies)

    @staticmethod
    def from_bytes(data: bytes) -> "Profile":
        """A profile that rotates as the one of `to_bytes` did; raises ProfileError on anything malformed."""
        if len(data) < _HEAD.size:
            raise ProfileError("profile", len(data), "has too few bytes")
        magic, half, planes, base, attention_factor = _HEAD.unpack_from(data)
        if magic != _MAGIC:
            raise ProfileError("profile", magic, "has an unknown format")
        if len(data) != _HEAD.size + 8 * planes:
            raise ProfileError("profile", len(data), f"of {planes} planes has another size")
        return Profile(
            base,
            2 * planes,
            "half" if half else "interleaved",
            attention_factor=attention_factor,
            frequencies=struct.unpack_from(f"<{planes}d", data, _HEAD.size),
        )

    @property
    def digest(self) -> bytes:
        """SHA-256 of `to_bytes`."""
        return sha256(self.to_bytes()).digest()

    def describe(self) -> dict[str, Any]:
        """JSON: the rule's numbers and the planes' inverse frequencies."""
        return {
            "base": self.base,
            "rotary_dim": self.rotary_dim,
            "pairing": self.pairing,
            "rope_type": self.rope_type,
            **{name: list(value) if isinstance(value, tuple) else value for name, value in self.parameters},
            "attention_factor": self.attention_factor,
            "inverse_frequencies": list(self.frequencies),
        }


def _layer_parameters(config: Any, layer_type: str | None) -> Mapping[str, Any]:
    """The rule of one layer type, in transformers' present spelling."""
    if hasattr(config, "standardize_rope_params"):
        config.standardize_rope_params()
    parameters = getattr(config, "rope_parameters", None)
    if layer_type is not None:
        parameters = (parameters or {}).get(layer_type)
    if not parameters or parameters.get("rope_theta") is None:
        raise ProfileError("rope_parameters", layer_type, "the configuration declares no RoPE rule for it")
    rule: Mapping[str, Any] = parameters
    return rule


def _head_dim(config: Any) -> int:
    return int(getattr(config, "head_dim", None) or config.hidden_size // config.num_attention_heads)


def _scaled(config: Any, rope_type: str, layer_type: str | None, length: int) -> tuple[torch.Tensor, float]:
    try:
        frequencies, factor = ROPE_INIT_FUNCTIONS[rope_type](
            config, device=torch.device("cpu"), seq_len=length, layer_type=layer_type
        )
    except KeyError as error:
        raise ProfileError(f"rope_parameters.{error.args[0]}", None, f"{rope_type} needs it") from error
    except (TypeError, ValueError, ArithmeticError, RuntimeError) as error:
        raise ProfileError("rope_parameters", config.rope_parameters, f"{rope_type}: {error}") from error
    return frequencies, factor


def _frozen(value: Any) -> ParameterValue:
    return tuple(value) if isinstance(value, list | tuple) else value


def _numbers(values: Iterable[Any]) -> tuple[float, ...]:
    return tuple(float(value) for value in values)
