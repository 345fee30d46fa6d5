"""Attention of `RopewayForCausalLM`'s layers: each rotates, biases and sees as its configuration says."""

from typing import Any

import torch
from torch import nn
from torch.nn.functional import pad
from vllm.config import VllmConfig
from vllm.distributed import get_tensor_model_parallel_world_size
from vllm.model_executor.layers.attention import Attention
from vllm.model_executor.layers.layernorm import RMSNorm
from vllm.model_executor.layers.linear import QKVParallelLinear, RowParallelLinear
from vllm.model_executor.layers.rotary_embedding import get_rope

from cache.architecture_config import Architecture, ArchitectureError, LayerConfig, QueryScale, query_factors
from cache.cached_width import cached_width
from cache.learned_rotation import LearnedBasis, LearnedPlane, LearnedRotation, LearnedSpectrum
from cache.logit_bias import made_bias, own_slopes
from positional.profile import Pairing


def rotary_of(
    layer: LayerConfig, architecture: Architecture, config: VllmConfig, name: str
) -> nn.Module | None:
    """vLLM's rotary module for a layer, or a learned one, which is known as `name`; None without rotation."""
    heads, width = architecture.num_key_value_heads, architecture.head_dim
    if layer.rotary == "plane":
        return LearnedPlane(heads, width, config, name)
    if layer.spectrum is not None:
        heads = 1 if layer.spectrum == "tied" else heads
        return LearnedSpectrum(heads, layer.rotary_dim(width) // 2, _pairing(layer), width, config, name)
    parameters = layer.rope_parameters
    if parameters is None:
        return None
    if parameters["rope_type"] == "longrope" and (factor := parameters.get("attention_factor")):
        parameters |= {"short_mscale": factor, "long_mscale": factor}
    return get_rope(
        width,
        max_position=architecture.max_position_embeddings,
        rope_parameters=parameters,
        is_neox_style=_pairing(layer) == "half",
    )


def basis_of(layer: LayerConfig, architecture: Architecture, config: VllmConfig) -> LearnedBasis | None:
    """The basis that a layer's planes lie in; None for the coordinates' own."""
    if layer.basis is None:
        return None
    width = architecture.head_dim
    gated = layer.bias is not None and layer.bias.kind == "gated_slope"
    return LearnedBasis(
        1 if layer.basis == "tied" else architecture.num_key_value_heads,
        width,
        layer.rotary_dim(width) // 2,
        _pairing(layer),
        folds=not (layer.qk_norm or gated or config.quant_config or config.lora_config),
    )


def _pairing(layer: LayerConfig) -> Pairing:
    return layer.pairing or "half"


class QueryScaling(nn.Module):
    """Scales the queries of a layer without rotation by their absolute positions (Llama 4)."""

    def __init__(self, scale: QueryScale) -> None:
        super().__init__()
        self.floor_scale, self.attn_scale = scale.floor_scale, scale.attn_scale

    def forward(self, positions: torch.Tensor, query: torch.Tensor) -> torch.Tensor:
        """`positions` [tokens], `query` [tokens, heads × width]."""
        factors = query_factors(positions, self.floor_scale, self.attn_scale)
        return (query * factors[:, None]).to(query.dtype)


class RopewayAttention(nn.Module):
    """Causal self-attention of one layer: normed, rotated, scaled, biased and windowed as the layer says.

    `content_width`: what of the heads that attention reads and gives is the layer's own.
    """

    def __init__(
        self, layer: LayerConfig, architecture: Architecture, config: VllmConfig, prefix: str
    ) -> None:
        super().__init__()
        ranks = get_tensor_model_parallel_world_size()
        width, heads, kv_heads = (
            architecture.head_dim,
            architecture.num_attention_heads,
            architecture.num_key_value_heads,
        )
        if heads % ranks or (kv_heads % ranks and ranks % kv_heads):
            raise ArchitectureError(
                "--tensor-parallel-size", f"does not divide {heads} query and {kv_heads} key heads", ranks
            )
        # Where there are more ranks than key heads, several hold a copy of the same one.
        local_heads, local_kv_heads = heads // ranks, max(1, kv_heads // ranks)
        self.content_width = width
        self.cached_width = cached_width(architecture, config)
        self.sizes = [local_heads * width, local_kv_heads * width, local_kv_heads * width]
        self.qkv_proj = QKVParallelLinear(
            architecture.hidden_size,
            width,
            heads,
            kv_heads,
            bias=architecture.attention_bias,
            quant_config=config.quant_config,
            prefix=f"{prefix}.qkv_proj",
        )
        self.o_proj = RowParallelLinear(
            heads * width,
            architecture.hidden_size,
            bias=architecture.output_bias,
            quant_config=config.quant_config,
            prefix=f"{prefix}.o_proj",
        )
        self.q_norm = RMSNorm(width, eps=architecture.rms_norm_eps) if layer.qk_norm else None
        self.k_norm = RMSNorm(width, eps=architecture.rms_norm_eps) if layer.qk_norm else None
        self.rotary_basis = basis_of(layer, architecture, config)
        self.rotary_emb = rotary_of(layer, architecture, config, f"{prefix}.rotary_emb")
        self.query_scaling = None if layer.query_scale is None else QueryScaling(layer.query_scale)
        scale = width**-0.5
        self.logit_bias = made_bias(layer.bias, architecture, scale, config, f"{prefix}.attn")
        self.attn = Attention(
            local_heads,
            self.cached_width,
            scale,
            num_kv_heads=local_kv_heads,
            alibi_slopes=own_slopes(layer.bias, heads),
            cache_config=config.cache_config,
            quant_config=config.quant_config,
            per_layer_sliding_window=layer.window,
            prefix=f"{prefix}.attn",
        )
        if self.attn.sliding_window != layer.window:
            # vLLM falls back on a window of the whole configuration where a layer has none.
            raise ArchitectureError(f"{prefix}.window", f"must be {layer.window}", self.attn.sliding_window)

    def forward(self, positions: torch.Tensor, hidden_states: torch.Tensor) -> torch.Tensor:
        """`positions` [tokens], `hidden_states` [tokens, hidden_size]; likewise below."""
        qkv, _ = self.qkv_proj(hidden_states)
        query, key, value = qkv.split(self.sizes, dim=-1)
        if self.q_norm is not None and self.k_norm is not None:
            query, key = self._by_head(self.q_norm, query), self._by_head(self.k_norm, key)
        behind: tuple[Any, Any] = (None, None)
        if self.logit_bias is not None:
            behind = self.logit_bias(positions, hidden_states, self._heads(query), self._heads(key))
        if self.rotary_basis is not None:
            query, key = self.rotary_basis(query, key)
        if self.rotary_emb is not None:
            query, key = self.rotary_emb(positions, query, key)
        if self.query_scaling is not None:
            query = self.query_scaling(positions, query)
        if self.cached_width == self.content_width:
            read = self.attn(query, key, value)
        else:
            wide = self.attn(self._wide(query, behind[0]), self._wide(key, behind[1]), self._wide(value))
            read = wide.view(-1, self.cached_width)[:, : self.content_width].reshape(query.shape)
        output, _ = self.o_proj(read)
        return output

    def settle(self, name: str) -> None:
        """Once weights are loaded; `name` is the module's own. Raises ValueError for a basis that is none."""
        if self.rotary_basis is not None:
            self.rotary_basis.settle(f"{name}.rotary_basis", self.qkv_proj, self.sizes)
        if isinstance(self.rotary_emb, LearnedRotation):
            self.rotary_emb.settle()

    def _wide(self, states: torch.Tensor, behind: torch.Tensor | None = None) -> torch.Tensor:
        """`states` [tokens, heads × width] with coordinates [tokens, heads, extra] and zeros behind each."""
        heads = self._heads(states)
        if behind is not None:
            heads = torch.cat((heads, behind), dim=-1)
        return pad(heads, (0, self.cached_width - heads.shape[-1])).flatten(1)

    def _heads(self, states: torch.Tensor) -> torch.Tensor:
        return states.reshape(states.shape[0], -1, self.content_width)

    def _by_head(self, norm: nn.Module, states: torch.Tensor) -> torch.Tensor:
        return norm(self._heads(states)).view(states.shape)
