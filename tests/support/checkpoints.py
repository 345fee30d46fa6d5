"""Tiny randomly initialised checkpoints whose log-probabilities depend strongly on token positions."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal, get_args

import torch
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
from transformers import AutoConfig, AutoModelForCausalLM, PreTrainedConfig, PreTrainedTokenizerFast

from tests.support.prose import document

Rotating = Literal["llama", "qwen3", "granite", "gemma3", "mistral", "qwen2", "phi3", "glm4"]
Mixed = Literal["cohere2", "exaone4", "llama4"]
Architecture = Rotating | Mixed
ROTATING: tuple[Rotating, ...] = get_args(Rotating)
"""Whose global layers rotate."""
MIXED: tuple[Mixed, ...] = get_args(Mixed)
"""Whose global layers do not rotate, and whose other layers do."""

WINDOW = 48
"""`sliding_window` of the checkpoints that have one."""
CHUNK = 64
"""Tokens of a chunk in which a rotary layer of Llama 4 attends."""
QUERY_SCALE = {"attn_temperature_tuning": True, "floor_scale": 40, "attn_scale": 0.3}
"""Of Llama 4's global layers."""

_SPECIAL = ("<|endoftext|>", "<|im_start|>", "<|im_end|>")
_TEMPLATE = (
    "{% for message in messages %}"
    "{{ '<|im_start|>' + message['role'] + '\n' + message['content'] }}"
    "{% if not (loop.last and continue_final_message) %}{{ '<|im_end|>\n' }}{% endif %}"
    "{% endfor %}"
    "{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}"
)

_MODEL_TYPES = {"gemma3": "gemma3_text", "llama4": "llama4_text"}
_OWN_FIELDS: dict[str, dict[str, Any]] = {
    "llama": {},
    "qwen3": {},
    # Every multiplier differs from its neutral value, so one that is dropped changes the result.
    "granite": {
        "attention_multiplier": 0.25,
        "embedding_multiplier": 3.0,
        "residual_multiplier": 0.8,
        "logits_scaling": 1.25,
    },
    "gemma3": {"sliding_window": WINDOW},
    "mistral": {"sliding_window": None},
    "qwen2": {},
    "phi3": {},
    "glm4": {"attention_bias": True},
    "cohere2": {"sliding_window": WINDOW, "logit_scale": 0.8},
    "exaone4": {"sliding_window": WINDOW},
    # Without experts: their step is longer than the model.
    "llama4": {
        "attention_chunk_size": CHUNK,
        "intermediate_size_mlp": 256,
        "interleave_moe_layer_step": 1000,
        **QUERY_SCALE,
    },
}
_NO_HEAD_DIM_FIELD = ("granite", "qwen2", "phi3", "cohere2", "exaone4")
_BY_WINDOW = ("gemma3", "cohere2", "exaone4")


def make(
    architecture: Architecture,
    folder: Path,
    *,
    max_positions: int = 8192,
    layers: int = 4,
    hidden: int = 128,
    head_dim: int = 32,
    heads: int = 4,
    kv_heads: int = 2,
    rope_parameters: Mapping[str, Any] | None = None,
    tie: bool = False,
    window_pattern: int = 2,
    seed: int = 0,
) -> Path:
    """Write a float32 safetensors checkpoint with a byte-level BPE tokenizer and a chat template.

    `rope_parameters` in transformers' spelling; for Gemma 3 nested per layer type. `window_pattern`: every
    so many-th layer of models that have both kinds attends fully, the others in a window or chunk. Returns
    `folder`.
    """
    tokenizer = make_tokenizer()
    fields: dict[str, Any] = {
        "vocab_size": len(tokenizer),
        "hidden_size": hidden,
        "intermediate_size": 2 * hidden,
        "num_hidden_layers": layers,
        "num_attention_heads": heads,
        "num_key_value_heads": kv_heads,
        "max_position_embeddings": max_positions,
        "tie_word_embeddings": tie,
        "bos_token_id": None,
        "eos_token_id": tokenizer.eos_token_id,
        "pad_token_id": tokenizer.pad_token_id,
        "rope_parameters": dict(rope_parameters) if rope_parameters is not None else _rope(architecture),
        **_OWN_FIELDS[architecture],
    }
    if architecture in _NO_HEAD_DIM_FIELD:
        if head_dim * heads != hidden:
            raise ValueError(f"{architecture}: head_dim must be hidden / heads = {hidden / heads}")
    else:
        fields["head_dim"] = head_dim
    full = [index % window_pattern == window_pattern - 1 for index in range(layers)]
    if architecture in _BY_WINDOW:
        fields["layer_types"] = ["full_attention" if here else "sliding_attention" for here in full]
    if architecture == "gemma3":
        fields["query_pre_attn_scalar"] = head_dim
    if architecture == "llama4":
        fields["no_rope_layers"] = [int(not here) for here in full]
    config = AutoConfig.for_model(_MODEL_TYPES.get(architecture, architecture), **fields)
    initialised(config, seed).save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return folder


def make_tokenizer() -> PreTrainedTokenizerFast:
    """A byte-level BPE tokenizer of some 600 entries with a ChatML template; always the same."""
    core = Tokenizer(models.BPE())
    core.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    core.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=1000,
        special_tokens=list(_SPECIAL),
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    core.train_from_iterator([document(2000, seed=0)], trainer)
    return PreTrainedTokenizerFast(
        tokenizer_object=core, eos_token="<|im_end|>", pad_token="<|endoftext|>", chat_template=_TEMPLATE
    )


def _rope(architecture: Architecture) -> dict[str, Any]:
    if architecture == "gemma3":
        return {
            "full_attention": {"rope_type": "default", "rope_theta": 1_000_000.0},
            "sliding_attention": {"rope_type": "default", "rope_theta": 10_000.0},
        }
    share = {"partial_rotary_factor": 0.5} if architecture == "glm4" else {}
    return {"rope_type": "default", "rope_theta": 10_000.0, **share}


def initialised(config: PreTrainedConfig, seed: int) -> Any:
    """A model whose attention is peaked and outweighs the token embedding, so that positions matter.

    With these deviations modulation moves log-probabilities by about 1, and float32 noise by at most 1e-4
    up to 3,000 tokens; larger ones amplify the noise, smaller ones lose the effect.
    """
    model = AutoModelForCausalLM.from_config(config, dtype=torch.float32).eval()
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            noise = torch.randn(parameter.shape, generator=generator)
            if "norm" in name:
                parameter.add_(0.1 * noise)
                if "q_norm" in name or "k_norm" in name:
                    parameter.add_(0.5)
            else:
                parameter.copy_(0.1 * noise)
    return model
