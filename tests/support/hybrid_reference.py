"""The oracle of Ropeway's own architecture: its layers written plainly on the reference attention."""

import json
from collections.abc import Collection, Sequence
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load_file
from torch.nn.functional import linear, silu
from transformers import LlamaConfig

from positional.attention import Rotation, attend
from positional.masks import visible
from positional.phases import rotate
from positional.profile import Profile
from tests.support.encoded_layers import Keeping, LogitBias, in_basis, turned
from tests.support.hybrids import layers_of
from tests.support.reference import Map, Modulated, Span, heard_by

Rotated = dict[int, tuple[torch.Tensor, torch.Tensor]]
"""By layer, rotated queries and keys [heads, tokens, width]."""

# Queries that attend at a time: scores of long prompts do not fit all at once.
_ROWS = 512


class HybridReference:
    """A checkpoint folder of `RopewayForCausalLM`, run in float32 on the CPU, one prompt at a time.

    It reads `config.json` and the weights by itself and shares no code with the served model but
    `positional`. `keeping`: what a cached key holds of a number, all of it by default.
    """

    def __init__(self, folder: Path, keeping: Keeping = lambda numbers: numbers) -> None:
        self._keeping = keeping
        self._config: dict[str, Any] = json.loads((folder / "config.json").read_text())
        self.layers = layers_of(self._config)
        self._profiles = [_profile(layer, self._config) for layer in self.layers]
        self._weights = {
            name: weight.float()
            for file in sorted(folder.glob("*.safetensors"))
            for name, weight in load_file(file).items()
        }

    @property
    def head_dim(self) -> int:
        """Dimensions of a head."""
        width: int = self._config["head_dim"]
        return width

    @property
    def rotary_widths(self) -> list[int]:
        """By layer, how many of a head's dimensions are rotated, from the first."""
        return [0 if profile is None else profile.rotary_dim for profile in self._profiles]

    def forced_logprobs(
        self, prompt_ids: Sequence[int], forced_ids: Sequence[int], modulated: Modulated | None = None
    ) -> list[float]:
        """The log-probability of each forced token after the prompt and the forced tokens before it."""
        logits = self.logits([*prompt_ids, *forced_ids[:-1]], modulated, last=len(forced_ids))
        chosen = torch.tensor(forced_ids)[:, None]
        return [float(value) for value in logits.log_softmax(-1).gather(1, chosen)[:, 0]]

    def relevance(
        self,
        prompt_ids: Sequence[int],
        heads: Sequence[tuple[int, int]],
        query_rows: Sequence[int],
        spans: Sequence[Span],
        silent: Collection[int] = (),
    ) -> tuple[list[float], torch.Tensor]:
        """As `Reference.relevance`; heads are those of layers that rotate."""
        rotated: Rotated = {}
        self.logits(prompt_ids, rotated=rotated)
        return heard_by(rotated, heads, query_rows, spans, silent)

    @torch.inference_mode()
    def logits(
        self,
        ids: Sequence[int],
        modulated: Modulated | None = None,
        *,
        shift: int = 0,
        last: int | None = None,
        rotated: Rotated | None = None,
    ) -> torch.Tensor:
        """Logits float32 [tokens, vocabulary] of a sequence whose first token stands at `shift`.

        Of its `last` tokens, or of all. `rotated` takes the queries and keys of every layer that rotates.
        """
        places = torch.arange(len(ids)) + shift
        states = self._weights["model.embed_tokens.weight"][torch.tensor(list(ids))]
        for index in range(len(self.layers)):
            name = f"model.layers.{index}"
            # Nothing reads the other tokens of the last layer.
            first = 0 if last is None or index + 1 < len(self.layers) else len(ids) - last
            normed = self._norm(f"{name}.input_layernorm", states)
            states = states[first:] + self._attention(index, normed, places, modulated, rotated, first)
            normed = self._norm(f"{name}.post_attention_layernorm", states)
            gated = silu(self._linear(f"{name}.mlp.gate_proj", normed))
            states = states + self._linear(
                f"{name}.mlp.down_proj", gated * self._linear(f"{name}.mlp.up_proj", normed)
            )
        head = self._weights.get("lm_head.weight", self._weights["model.embed_tokens.weight"])
        return linear(self._norm("model.norm", states), head)

    def _attention(
        self,
        index: int,
        states: torch.Tensor,
        places: torch.Tensor,
        modulated: Modulated | None,
        rotated: Rotated | None,
        first: int,
    ) -> torch.Tensor:
        """Of the tokens from `first` on."""
        layer, name = self.layers[index], f"model.layers.{index}.self_attn"
        query, key, value = (
            self._linear(f"{name}.{part}_proj", states).unflatten(-1, (-1, self._config["head_dim"]))
            for part in "qkv"
        )
        if layer.get("qk_norm"):
            query, key = self._norm(f"{name}.q_norm", query), self._norm(f"{name}.k_norm", key)
        bias = LogitBias(layer, self._weights, name, states, query, key, places, self._keeping)
        if layer.get("basis"):
            query, key = (in_basis(self._weights, name, vectors) for vectors in (query, key))
        rotation = self._rotation(index, places, modulated)
        if rotation is not None:
            query = rotate(query, rotation.query_rows.float(), rotation.pairing)
            key = rotate(key, rotation.key_rows.float(), rotation.pairing)
            if rotated is not None:
                rotated[index] = query.transpose(0, 1), key.transpose(0, 1)
        elif layer["rotary"] != "none":
            query = turned(layer, self._weights, name, query, places)
            key = turned(layer, self._weights, name, key, self._keeping(places.double()))
        scale = _query_scale(layer, places)
        read = []
        for start in range(first, len(places), _ROWS):
            rows = slice(start, min(start + _ROWS, len(places)))
            # No query of these rows sees others.
            seen = slice(0 if layer["window"] is None else max(0, start + 1 - layer["window"]), rows.stop)
            answers = attend(
                query[rows],
                key[seen],
                value[seen],
                visible(places[rows], places[seen], window=layer["window"]),
                query_scale=None if scale is None else scale[rows],
                bias=bias.rows(rows, seen),
            )
            read.append(answers.to(value.dtype))
        return self._linear(f"{name}.o_proj", torch.cat(read).flatten(1))

    def _rotation(self, index: int, places: torch.Tensor, modulated: Modulated | None) -> Rotation | None:
        """Global rotary layers of the lower half stand in the broad map, the others in the sharp one.

        Not so those with a bias on their logits.
        """
        profile = self._profiles[index]
        if profile is None:
            return None
        layer = self.layers[index]
        if modulated is None or layer["window"] is not None or layer.get("bias"):
            return Rotation.of(profile, places, self._keeping(places.double()))
        name: Map = "broad" if index < len(self.layers) // 2 else "sharp"
        moved = modulated.positions(name, len(places), profile.inverse_frequencies)
        return Rotation.of(profile, moved, moved)

    def _linear(self, name: str, states: torch.Tensor) -> torch.Tensor:
        return linear(states, self._weights[f"{name}.weight"], self._weights.get(f"{name}.bias"))

    def _norm(self, name: str, states: torch.Tensor) -> torch.Tensor:
        epsilon = self._config.get("rms_norm_eps", 1e-6)
        root = (states.square().mean(dim=-1, keepdim=True) + epsilon).rsqrt()
        return states * root * self._weights[f"{name}.weight"]


def _profile(layer: dict[str, Any], config: dict[str, Any]) -> Profile | None:
    if layer.get("base") is None:
        return None
    rule = {"rope_type": "default", **(layer.get("scaling") or {}), "rope_theta": layer["base"]}
    if layer["rotary"] == "partial":
        rule["partial_rotary_factor"] = layer["rotary_fraction"]
    transformers = LlamaConfig(
        head_dim=config["head_dim"],
        max_position_embeddings=config["max_position_embeddings"],
        rope_parameters=rule,
    )
    # A basis has the two columns of a plane beside each other.
    pairing = "interleaved" if layer.get("basis") else layer.get("pairing") or "half"
    return Profile.from_config(transformers, pairing=pairing)


def _query_scale(layer: dict[str, Any], places: torch.Tensor) -> torch.Tensor | None:
    """1 + a · ln(1 + ⌊(p + 1) / f⌋) of each query's position p."""
    rule = layer.get("query_scale")
    if rule is None:
        return None
    steps = torch.floor((places + 1) / rule["floor_scale"])
    return 1 + rule["attn_scale"] * torch.log1p(steps)
