"""`RopewayForCausalLM` for transformers, as far as calibration reads it: a prefill, without a cache."""

from functools import cached_property

import torch
from torch import nn
from transformers import AutoModelForCausalLM, PreTrainedModel
from transformers.modeling_outputs import BaseModelOutput, CausalLMOutput
from transformers.modeling_utils import ALL_ATTENTION_FUNCTIONS
from transformers.models.llama.modeling_llama import LlamaMLP, LlamaRMSNorm

from cache.architecture_config import LayerConfig, query_factors
from cache.ropeway_config import RopewayConfig
from positional.masks import visible
from positional.phases import rotate, rotation_rows
from positional.profile import Profile


class UncoveredLayerError(ValueError):
    """A layer that does what this model does not compute: its `index` and the configuration's `fields`."""

    def __init__(self, index: int, fields: tuple[str, ...]) -> None:
        self.index = index
        self.fields = fields
        super().__init__(f"layer {index} has {', '.join(fields)}, which the model in transformers lacks")


class PlainAttention(nn.Module):
    """Self-attention of one layer, through the attention function that the configuration names.

    Raises UncoveredLayerError for learned rotations and biased logits.
    """

    is_causal = True

    def __init__(self, config: RopewayConfig, index: int) -> None:
        super().__init__()
        architecture = config.architecture
        self.config = config
        self.layer_idx = index
        self.layer: LayerConfig = architecture.every_layer[index]
        if self.layer.learned:
            raise UncoveredLayerError(index, self.layer.learned)
        self.width = architecture.head_dim
        self.num_key_value_groups = architecture.num_attention_heads // architecture.num_key_value_heads
        hidden, bias = architecture.hidden_size, architecture.attention_bias
        heads, kv_heads = architecture.num_attention_heads, architecture.num_key_value_heads
        self.q_proj = nn.Linear(hidden, heads * self.width, bias=bias)
        self.k_proj = nn.Linear(hidden, kv_heads * self.width, bias=bias)
        self.v_proj = nn.Linear(hidden, kv_heads * self.width, bias=bias)
        self.o_proj = nn.Linear(heads * self.width, hidden, bias=architecture.output_bias)
        if self.layer.qk_norm:
            self.q_norm = LlamaRMSNorm(self.width, eps=architecture.rms_norm_eps)
            self.k_norm = LlamaRMSNorm(self.width, eps=architecture.rms_norm_eps)

    @cached_property
    def profile(self) -> Profile | None:
        """The layer's RoPE profile; made late: transformers builds models without any numbers."""
        return self.config.architecture.profile(self.layer_idx)

    def forward(self, states: torch.Tensor, positions: torch.Tensor) -> torch.Tensor:
        """`states` [1, tokens, hidden_size], `positions` int64 [tokens]; likewise below."""
        query, key, value = (
            projection(states)[0].unflatten(-1, (-1, self.width))
            for projection in (self.q_proj, self.k_proj, self.v_proj)
        )
        if self.layer.qk_norm:
            query, key = self.q_norm(query), self.k_norm(key)
        if self.profile is not None:
            places = positions[:, None].expand(-1, self.profile.planes).cpu()
            rows = rotation_rows(places, self.profile, query.dtype).to(query.device)
            query, key = (rotate(vectors, rows, self.profile.pairing) for vectors in (query, key))
        if (scale := self.layer.query_scale) is not None:
            factors = query_factors(positions, scale.floor_scale, scale.attn_scale)
            query = (query * factors[:, None, None]).to(query.dtype)
        mask = visible(positions, positions, window=self.layer.window)[None, None]
        attend = ALL_ATTENTION_FUNCTIONS[self.config._attn_implementation]
        output, _ = attend(
            self,
            *(vectors.transpose(0, 1)[None] for vectors in (query, key, value)),
            mask,
            scaling=self.width**-0.5,
            sliding_window=self.layer.window,
        )
        return self.o_proj(output.flatten(2))


class PlainLayer(nn.Module):
    """One decoder layer."""

    def __init__(self, config: RopewayConfig, index: int) -> None:
        super().__init__()
        self.self_attn = PlainAttention(config, index)
        self.mlp = LlamaMLP(config)
        self.input_layernorm = LlamaRMSNorm(config.hidden_size, eps=config.rms_norm_eps)
        self.post_attention_layernorm = LlamaRMSNorm(config.hidden_size, eps=config.rms_norm_eps)

    def forward(self, states: torch.Tensor, positions: torch.Tensor) -> torch.Tensor:
        """The states behind the layer."""
        states = states + self.self_attn(self.input_layernorm(states), positions)
        return states + self.mlp(self.post_attention_layernorm(states))


class _Plain(PreTrainedModel):
    config_class = RopewayConfig
    base_model_prefix = "model"
    _supports_sdpa = True
    _supports_attention_backend = True


class PlainModel(_Plain):
    """Embedding, decoder layers and the last norm."""

    def __init__(self, config: RopewayConfig) -> None:
        super().__init__(config)
        self.embed_tokens = nn.Embedding(config.vocab_size, config.hidden_size)
        self.layers = nn.ModuleList(PlainLayer(config, index) for index in range(config.num_hidden_layers))
        self.norm = LlamaRMSNorm(config.hidden_size, eps=config.rms_norm_eps)
        self.post_init()

    def forward(
        self, input_ids: torch.Tensor, position_ids: torch.Tensor | None = None, use_cache: bool = False
    ) -> BaseModelOutput:
        """A prefill of one sequence, `input_ids` [1, tokens]; there is no cache to use."""
        positions = torch.arange(input_ids.shape[1], device=input_ids.device)
        states = self.embed_tokens(input_ids)
        for layer in self.layers:
            states = layer(states, positions if position_ids is None else position_ids[0])
        return BaseModelOutput(last_hidden_state=self.norm(states))


class PlainForCausalLM(_Plain):
    """The model with its head."""

    _tied_weights_keys = {"lm_head.weight": "model.embed_tokens.weight"}  # noqa: RUF012 - transformers' own

    def __init__(self, config: RopewayConfig) -> None:
        super().__init__(config)
        self.model = PlainModel(config)
        self.lm_head = nn.Linear(config.hidden_size, config.vocab_size, bias=False)
        self.post_init()

    def forward(self, input_ids: torch.Tensor, position_ids: torch.Tensor | None = None) -> CausalLMOutput:
        """Logits [1, tokens, vocab_size]."""
        output = self.model(input_ids, position_ids)
        return CausalLMOutput(logits=self.lm_head(output.last_hidden_state))


AutoModelForCausalLM.register(RopewayConfig, PlainForCausalLM, exist_ok=True)
