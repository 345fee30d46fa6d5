"""Turns the default model's GGUF file into the folder that vLLM serves; a program for a process of its own.

Of its own, because PyTorch starts threads while it converts, and vLLM may later fork the process that asked.
"""

import errno
import json
import os
import sys
from pathlib import Path
from typing import Any

# What decides how the model computes. The list is fixed so that `config.json`, and with it the model's
# fingerprint, is the same under every version of transformers.
CONFIG_KEYS = (
    "architectures",
    "attention_bias",
    "attention_dropout",
    "bos_token_id",
    "eos_token_id",
    "head_dim",
    "hidden_act",
    "hidden_size",
    "initializer_range",
    "intermediate_size",
    "max_position_embeddings",
    "mlp_bias",
    "model_type",
    "num_attention_heads",
    "num_hidden_layers",
    "num_key_value_heads",
    "pad_token_id",
    "rms_norm_eps",
    "rope_parameters",
    "tie_word_embeddings",
    "use_cache",
    "vocab_size",
)
GENERATION_KEYS = ("bos_token_id", "eos_token_id", "pad_token_id")

NO_ROOM_STATUS = errno.ENOSPC
"""The exit status where the disk, or the user's share of it, is full."""


def tells_no_room(text: str) -> bool:
    """Whether an error's text, of this process or another, is that a disk is full."""
    return any(os.strerror(number) in text for number in (errno.ENOSPC, errno.EDQUOT))


def convert(gguf: Path, target: Path) -> None:
    """Writes the model in `gguf` into the folder `target`: bfloat16 safetensors, configs and tokenizer.

    The weights and both configs are the same bytes on every machine.
    """
    import torch
    from safetensors.torch import save_file
    from transformers import AutoModelForCausalLM

    model: Any = AutoModelForCausalLM.from_pretrained(gguf.parent, gguf_file=gguf.name, dtype=torch.float32)
    weights = {name: tensor.to(torch.bfloat16).contiguous() for name, tensor in model.state_dict().items()}
    if model.config.tie_word_embeddings:
        weights.pop("lm_head.weight", None)
    # `save_pretrained` refuses a model that was read from a GGUF file, as if it were still quantised.
    save_file(weights, target / "model.safetensors", metadata={"format": "pt"})
    (target / "model.safetensors").chmod(
        0o644
    )  # safetensors writes for its owner alone; caches may be shared
    config = {"architectures": [type(model).__name__], **_chosen(model.config.to_dict(), CONFIG_KEYS)}
    _write_json(target / "config.json", config | {"dtype": "bfloat16"})
    _write_json(target / "generation_config.json", _chosen(model.config.to_dict(), GENERATION_KEYS))
    _convert_tokenizer(gguf, target)


def _convert_tokenizer(gguf: Path, target: Path) -> None:
    from tokenizers.pre_tokenizers import ByteLevel, Digits, Sequence
    from transformers import AutoTokenizer

    tokenizer: Any = AutoTokenizer.from_pretrained(gguf.parent, gguf_file=gguf.name)
    # The file names its splitting rule ("smollm": every digit alone, then GPT-2's rule); transformers applies
    # only the second half of it, which differs where white space stands before a digit.
    tokenizer.backend_tokenizer.pre_tokenizer = Sequence(
        [Digits(individual_digits=True), ByteLevel(add_prefix_space=False, use_regex=True)]
    )
    tokenizer.save_pretrained(target)


def _chosen(values: dict[str, Any], keys: tuple[str, ...]) -> dict[str, Any]:
    return {key: values[key] for key in keys if values.get(key) is not None}


def _write_json(path: Path, value: dict[str, Any]) -> None:
    path.write_text(json.dumps(value, indent=2, sort_keys=True) + "\n", encoding="utf-8")


if __name__ == "__main__":
    try:
        convert(Path(sys.argv[1]), Path(sys.argv[2]))
    except Exception as error:  # safetensors has one of its own for a full disk
        if not tells_no_room(str(error)):
            raise
        sys.exit(NO_ROOM_STATUS)
