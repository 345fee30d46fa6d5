"""Biases on a served layer's logits: vLLM's own slopes, or coordinates behind its queries and keys.

`logit_bias.query_gate` [heads, head_dim] and `logit_bias.key_gate` [key heads, head_dim] are a gated slope's;
they read the normed, unrotated query and key. `logit_bias.weight` [key heads, hidden_size] and
`logit_bias.bias` [key heads] give the forget gates, of what query and key are projected from. Query heads
share the gate of their key head, since a cached key has one phase.
"""

import math
from typing import Any

import torch
from torch import nn
from torch.library import Library
from torch.nn.functional import linear, logsigmoid, softplus
from vllm.config import VllmConfig
from vllm.distributed import get_tensor_model_parallel_rank, get_tensor_model_parallel_world_size
from vllm.forward_context import get_forward_context
from vllm.utils.torch_utils import direct_register_custom_op

from cache.architecture_config import Architecture
from cache.bias_config import Bias
from cache.head_weights import head_weights
from cache.phase_memory import PhaseMemory
from positional.encodings.alibi import alibi_slopes
from positional.encodings.augmented import (
    gate_key,
    gate_query,
    phase_key,
    phase_query,
    slope_key,
    slope_query,
)
from positional.encodings.forgetting import phases

Coordinates = tuple[torch.Tensor, torch.Tensor]
"""Of queries [tokens, heads, extra] and of keys [tokens, key heads, extra]."""


def own_slopes(bias: Bias | None, heads: int) -> list[float] | None:
    """The slopes of this rank's query heads, of all `heads`, for vLLM's attention; None for no ALiBi."""
    if bias is None or bias.kind != "alibi":
        return None
    slopes = list(bias.slopes or alibi_slopes(heads).tolist())
    rank, ranks = get_tensor_model_parallel_rank(), get_tensor_model_parallel_world_size()
    return slopes[rank * heads // ranks :][: heads // ranks]


class LogitBias(nn.Module):
    """Gives the coordinates to put behind queries and keys, so that their products are the bias."""

    def __init__(self, bias: Bias, scale: float, config: VllmConfig, attention: str) -> None:
        """`scale`: what `attention`, a module by its name, multiplies products by."""
        super().__init__()
        self.extra = bias.contract.extra_dimensions
        self._scale = scale
        self._attention = attention
        self._name = f"{attention}.bias"
        # By this name the operator finds the module. A compiler would keep more bits of a part than its
        # dtype has, and so lose those of the next: it does not look into operators.
        config.compilation_config.static_forward_context[self._name] = self

    def forward(
        self, positions: torch.Tensor, states: torch.Tensor, query: torch.Tensor, key: torch.Tensor
    ) -> Coordinates:
        """`positions` [tokens]; `query` [tokens, heads, width], `key` [tokens, key heads, width], unrotated.

        `states` [tokens, hidden_size] are what both were projected from.
        """
        given: Coordinates = torch.ops.ropeway.lift(positions, states, query, key, self.extra, self._name)
        return given

    def coordinates(
        self, positions: torch.Tensor, states: torch.Tensor, query: torch.Tensor, key: torch.Tensor
    ) -> Coordinates:
        """As `forward`, whose work it does."""
        raise NotImplementedError


class SlopeBias(LogitBias):
    """Slopes by gates that read queries, keys or both."""

    def __init__(
        self, bias: Bias, architecture: Architecture, scale: float, config: VllmConfig, attention: str
    ) -> None:
        super().__init__(bias, scale, config, attention)
        width, gates = architecture.head_dim, bias.gates or ()
        self.query_gate = head_weights(architecture.num_attention_heads, width) if "query" in gates else None
        self.key_gate = head_weights(architecture.num_key_value_heads, width) if "key" in gates else None
        self._linked = bias.link != "identity"
        self._frequency = bias.frequency or 1.0

    def coordinates(
        self, positions: torch.Tensor, states: torch.Tensor, query: torch.Tensor, key: torch.Tensor
    ) -> Coordinates:
        queries, keys = [], []
        if self.query_gate is not None:
            slopes = self._slopes(query, self.query_gate)
            queries.append(slope_query(slopes, self._scale, query.dtype))
            keys.append(_on_heads(slope_key(positions, key.dtype), key))
        if self.key_gate is not None:
            slopes = self._slopes(key, self.key_gate)
            queries.append(_on_heads(gate_query(positions, query.dtype), query))
            keys.append(gate_key(slopes, positions[:, None], self._scale, key.dtype))
        return torch.cat(queries, dim=-1), torch.cat(keys, dim=-1)

    def _slopes(self, content: torch.Tensor, gate: torch.Tensor) -> torch.Tensor:
        read = (content.float() * gate).sum(-1) / math.sqrt(content.shape[-1])
        return self._frequency * (softplus(read) if self._linked else read)


class ForgetBias(LogitBias):
    """Forget gates, whose log-sums over all tokens so far are cached with the keys and, to go on, by slot."""

    def __init__(
        self, bias: Bias, architecture: Architecture, scale: float, config: VllmConfig, attention: str
    ) -> None:
        super().__init__(bias, scale, config, attention)
        heads = architecture.num_key_value_heads
        self.weight = head_weights(heads, architecture.hidden_size)
        self.bias = head_weights(heads)
        self._memory: PhaseMemory | None = None

    @property
    def heads(self) -> int:
        """How many heads have a phase of their own on this rank."""
        return len(self.bias)

    def remember(self, memory: PhaseMemory) -> None:
        """Keep phases there from now on."""
        self._memory = memory

    def coordinates(
        self, positions: torch.Tensor, states: torch.Tensor, query: torch.Tensor, key: torch.Tensor
    ) -> Coordinates:
        log_gates = logsigmoid(linear(states.float(), self.weight, self.bias))
        return phase_query(query), phase_key(self._phases(log_gates), self._scale, key.dtype)

    def _phases(self, log_gates: torch.Tensor) -> torch.Tensor:
        """Of a forward without a cache they begin with its first token."""
        metadata: Any = get_forward_context().attn_metadata
        if metadata is None or self._memory is None:
            return phases(log_gates)
        return self._memory.advance(log_gates.double(), metadata[self._attention])


def made_bias(
    bias: Bias | None, architecture: Architecture, scale: float, config: VllmConfig, attention: str
) -> LogitBias | None:
    """The module that gives a layer's coordinates; None where its bias needs none."""
    if bias is None or not bias.contract.extra_dimensions:
        return None
    kind = ForgetBias if bias.kind == "forget" else SlopeBias
    return kind(bias, architecture, scale, config, attention)


def _on_heads(coordinates: torch.Tensor, content: torch.Tensor) -> torch.Tensor:
    """The same coordinates [tokens, extra] for every head of `content`."""
    return coordinates[:, None].expand(-1, content.shape[1], -1)


def _lift(
    positions: torch.Tensor,
    states: torch.Tensor,
    query: torch.Tensor,
    key: torch.Tensor,
    extra: int,
    name: str,
) -> Coordinates:
    coordinates = get_forward_context().no_compile_layers[name].coordinates(positions, states, query, key)
    return coordinates[0].contiguous(), coordinates[1].contiguous()


def _lift_fake(
    positions: torch.Tensor,
    states: torch.Tensor,
    query: torch.Tensor,
    key: torch.Tensor,
    extra: int,
    name: str,
) -> Coordinates:
    return query.new_empty(*query.shape[:-1], extra), key.new_empty(*key.shape[:-1], extra)


_LIBRARY = Library("ropeway", "FRAGMENT")  # type: ignore[no-untyped-call]
direct_register_custom_op("lift", _lift, fake_impl=_lift_fake, target_lib=_LIBRARY)
