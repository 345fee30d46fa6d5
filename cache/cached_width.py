"""How wide the cached heads of a model are whose logits have biases."""

import torch
from vllm.config import VllmConfig
from vllm.platforms import current_platform
from vllm.v1.attention.backends.cpu_attn import CPUAttentionBackend

from cache.architecture_config import Architecture, ArchitectureError
from positional.encodings.augmented import EXACT_POSITIONS

# What attention backends on GPUs want of a head's width.
_MULTIPLE = 8


def cached_width(architecture: Architecture, config: VllmConfig) -> int:
    """The width of every cached head, of keys and values alike: a layer's content and what biases add.

    All layers have that of the widest, rounded up to one that attention takes: vLLM wants pages of one size
    where some layers have windows. Raises ArchitectureError for what no cache can hold so.
    """
    needed = max(_added(index, architecture, config) for index in range(architecture.num_hidden_layers))
    if not needed:
        return architecture.head_dim
    least = architecture.head_dim + needed
    if not current_platform.is_cpu():
        return -(-least // _MULTIPLE) * _MULTIPLE
    for width in CPUAttentionBackend.get_supported_head_sizes():
        if width >= least:
            return width
    raise ArchitectureError(
        "head_dim", f"leaves no room for {needed} coordinates of a bias", architecture.head_dim
    )


def _added(index: int, architecture: Architecture, config: VllmConfig) -> int:
    layer = architecture.every_layer[index]
    if layer.bias is None or not (extra := layer.bias.contract.extra_dimensions):
        return 0
    where = f"layers.{index}.bias"
    model, cache = config.model_config, config.cache_config
    if model.dtype == torch.float16:
        raise ArchitectureError("--dtype", f"float16 ends at 65,504, and {where} goes beyond")
    if cache.cache_dtype not in ("auto", str(model.dtype).removeprefix("torch.")):
        raise ArchitectureError("--kv-cache-dtype", f"would round the phases of {where}", cache.cache_dtype)
    if layer.bias.kind == "gated_slope" and model.max_model_len > EXACT_POSITIONS:
        raise ArchitectureError(
            "--max-model-len", f"must be at most {EXACT_POSITIONS} for {where}", model.max_model_len
        )
    if layer.bias.kind == "forget" and layer.window == 1:
        raise ArchitectureError(
            f"layers.{index}.window", "must be above 1: phases go on from the last token's"
        )
    return extra
