"""`RopewayForCausalLM`: a Llama whose every layer rotates, or not, and sees a window, or all, by itself.

Built of vLLM's own layers: tensor parallelism, quantised checkpoints, LoRA and compilation are theirs.
"""

from collections.abc import Iterable

import torch
from torch import nn
from vllm.compilation.decorators import support_torch_compile
from vllm.config import VllmConfig
from vllm.model_executor.layers.activation import SiluAndMul
from vllm.model_executor.layers.fusion.fused_act_quant import maybe_fused_act_quant
from vllm.model_executor.layers.layernorm import RMSNorm
from vllm.model_executor.layers.linear import MergedColumnParallelLinear, RowParallelLinear
from vllm.model_executor.layers.logits_processor import LogitsProcessor
from vllm.model_executor.layers.vocab_parallel_embedding import ParallelLMHead, VocabParallelEmbedding
from vllm.model_executor.models.interfaces import SupportsLoRA, SupportsQuant
from vllm.model_executor.models.utils import (
    AutoWeightsLoader,
    WeightsMapper,
    extract_layer_index,
    make_layers,
    maybe_prefix,
)
from vllm.sequence import IntermediateTensors

from cache.architecture_attention import RopewayAttention
from cache.architecture_config import Architecture, ArchitectureError
from cache.ropeway_config import architecture_of


def read_architecture(config: VllmConfig) -> Architecture:
    """The architecture of the model to build; raises ArchitectureError for what cannot be built so."""
    architecture = architecture_of(config.model_config.hf_text_config)
    if architecture is None:
        raise ArchitectureError("model_type", "is not ours", config.model_config.hf_text_config.model_type)
    if config.model_config.disable_sliding_window and any(x.window for x in architecture.every_layer):
        raise ArchitectureError("--disable-sliding-window", "a layer's window is part of the architecture")
    return architecture


class RopewayMLP(nn.Module):
    """SwiGLU."""

    def __init__(self, architecture: Architecture, config: VllmConfig, prefix: str) -> None:
        super().__init__()
        self.gate_up_proj = MergedColumnParallelLinear(
            architecture.hidden_size,
            [architecture.intermediate_size] * 2,
            bias=architecture.mlp_bias,
            quant_config=config.quant_config,
            prefix=f"{prefix}.gate_up_proj",
        )
        self.down_proj = RowParallelLinear(
            architecture.intermediate_size,
            architecture.hidden_size,
            bias=architecture.mlp_bias,
            quant_config=config.quant_config,
            prefix=f"{prefix}.down_proj",
        )
        self.act_fn = SiluAndMul()

    def forward(self, hidden_states: torch.Tensor) -> torch.Tensor:
        """The block's output, without the residual."""
        gate_up, _ = self.gate_up_proj(hidden_states)
        output, _ = self.down_proj(maybe_fused_act_quant(self.act_fn, gate_up, self.down_proj))
        return output


class RopewayLayer(nn.Module):
    """One decoder layer, norms before its blocks."""

    def __init__(self, architecture: Architecture, config: VllmConfig, prefix: str) -> None:
        super().__init__()
        layer = architecture.every_layer[extract_layer_index(prefix)]
        self.self_attn = RopewayAttention(layer, architecture, config, f"{prefix}.self_attn")
        self.mlp = RopewayMLP(architecture, config, f"{prefix}.mlp")
        self.input_layernorm = RMSNorm(architecture.hidden_size, eps=architecture.rms_norm_eps)
        self.post_attention_layernorm = RMSNorm(architecture.hidden_size, eps=architecture.rms_norm_eps)

    def forward(
        self, positions: torch.Tensor, hidden_states: torch.Tensor, residual: torch.Tensor | None
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """The MLP's output and the residual that is still to be added to it; None at the first layer."""
        if residual is None:
            residual, hidden_states = hidden_states, self.input_layernorm(hidden_states)
        else:
            hidden_states, residual = self.input_layernorm(hidden_states, residual)
        hidden_states = self.self_attn(positions, hidden_states)
        hidden_states, residual = self.post_attention_layernorm(hidden_states, residual)
        return self.mlp(hidden_states), residual


@support_torch_compile
class RopewayModel(nn.Module):
    """Embedding, decoder layers and the last norm."""

    def __init__(self, *, vllm_config: VllmConfig, prefix: str = "") -> None:
        super().__init__()
        architecture = read_architecture(vllm_config)
        self.embed_tokens = VocabParallelEmbedding(
            architecture.vocab_size,
            architecture.hidden_size,
            quant_config=vllm_config.quant_config,
            prefix=f"{prefix}.embed_tokens",
        )
        _, _, self.layers = make_layers(
            architecture.num_hidden_layers,
            lambda prefix: RopewayLayer(architecture, vllm_config, prefix),
            prefix=f"{prefix}.layers",
        )
        self.norm = RMSNorm(architecture.hidden_size, eps=architecture.rms_norm_eps)

    def forward(
        self,
        input_ids: torch.Tensor | None,
        positions: torch.Tensor,
        inputs_embeds: torch.Tensor | None = None,
    ) -> torch.Tensor:
        """Hidden states [tokens, hidden_size] after the last norm."""
        hidden_states = self.embed_tokens(input_ids) if inputs_embeds is None else inputs_embeds
        residual = None
        for layer in self.layers:
            hidden_states, residual = layer(positions, hidden_states, residual)
        hidden_states, _ = self.norm(hidden_states, residual)
        return hidden_states


class RopewayForCausalLM(nn.Module, SupportsLoRA, SupportsQuant):
    """The model with its head; loads Hugging Face's weight names."""

    packed_modules_mapping = {  # noqa: RUF012 - vLLM's own attribute
        "qkv_proj": ["q_proj", "k_proj", "v_proj"],
        "gate_up_proj": ["gate_proj", "up_proj"],
    }
    embedding_modules = {  # noqa: RUF012 - vLLM's own attribute
        "embed_tokens": "input_embeddings",
        "lm_head": "output_embeddings",
    }
    hf_to_vllm_mapper = WeightsMapper(
        orig_to_new_stacked={
            ".q_proj": (".qkv_proj", "q"),
            ".k_proj": (".qkv_proj", "k"),
            ".v_proj": (".qkv_proj", "v"),
            ".gate_proj": (".gate_up_proj", 0),
            ".up_proj": (".gate_up_proj", 1),
        }
    )

    def __init__(self, *, vllm_config: VllmConfig, prefix: str = "") -> None:
        super().__init__()
        architecture = read_architecture(vllm_config)
        self.config = vllm_config.model_config.hf_config
        self.model = RopewayModel(vllm_config=vllm_config, prefix=maybe_prefix(prefix, "model"))
        self.lm_head = ParallelLMHead(
            architecture.vocab_size,
            architecture.hidden_size,
            quant_config=vllm_config.quant_config,
            prefix=maybe_prefix(prefix, "lm_head"),
        )
        if architecture.tie_word_embeddings:
            self.lm_head = self.lm_head.tie_weights(self.model.embed_tokens)
        self.logits_processor = LogitsProcessor(architecture.vocab_size)

    def embed_input_ids(self, input_ids: torch.Tensor) -> torch.Tensor:
        """Embeddings [tokens, hidden_size]."""
        return self.model.embed_tokens(input_ids)

    def forward(
        self,
        input_ids: torch.Tensor | None,
        positions: torch.Tensor,
        intermediate_tensors: IntermediateTensors | None = None,
        inputs_embeds: torch.Tensor | None = None,
    ) -> torch.Tensor:
        """Hidden states; `intermediate_tensors` are pipeline parallelism's, which vLLM refuses here."""
        return self.model(input_ids, positions, inputs_embeds)

    def compute_logits(self, hidden_states: torch.Tensor) -> torch.Tensor | None:
        """Logits [tokens, vocab_size]; None on the ranks that do not gather them."""
        return self.logits_processor(self.lm_head, hidden_states)

    def load_weights(self, weights: Iterable[tuple[str, torch.Tensor]]) -> set[str]:
        """Load a checkpoint's weights; the names of what was loaded."""
        loaded: set[str] = AutoWeightsLoader(self).load_weights(weights, mapper=self.hf_to_vllm_mapper)
        for index, layer in enumerate(self.model.layers):
            layer.self_attn.settle(f"model.layers.{index}.self_attn")
        return loaded
