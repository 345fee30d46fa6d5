"""What `ropeway serve` adds to a command line: eager or compiled, and a modest default model."""

import importlib.metadata
import os
from collections.abc import Iterable, Sequence
from pathlib import Path

import yaml

from server.compiler import can_compile

# Any of these is the user's own word on compilation.
COMPILATION_FLAGS = frozenset(
    {"enforce-eager", "no-enforce-eager", "compilation-config", "cc", "optimization-level", "O"}
)
# Any of these is the user's own word on the cache's size; so is vLLM's VLLM_CPU_KVCACHE_SPACE.
CACHE_FLAGS = frozenset({"kv-cache-memory-bytes", "gpu-memory-utilization", "num-gpu-blocks-override"})
RETENTION_FLAG = "prefix-cache-retention-interval"
# 46,000 tokens of the default model; all processes then fit into 4 GB. Without a word vLLM takes nearly all
# of the machine's memory.
CPU_CACHE = "1G"


def named_flags(arguments: Iterable[str]) -> frozenset[str]:
    """The flags that a vLLM command line names, bare (`--max_model_len=9` is `max-model-len`)."""
    flags = (argument.partition("=")[0] for argument in arguments if argument.startswith("-"))
    names = (flag.lstrip("-").partition(".")[0].replace("_", "-") for flag in flags)
    return frozenset("O" if name[:1] == "O" else name for name in names)


def config_file(arguments: Sequence[str]) -> dict[str, object]:
    """The contents of the YAML file that `--config` names, keys spelt with dashes; empty without one.

    Raises `OSError` for a file that cannot be read and `ValueError` for one that holds no mapping.
    """
    path = value_of("--config", arguments)
    if path is None:
        return {}
    try:
        content = yaml.safe_load(Path(path).read_text(encoding="utf-8"))
    except yaml.YAMLError as error:
        raise ValueError(f"--config {path} is not YAML: {error}") from error
    if not isinstance(content, dict):
        raise ValueError(f"--config {path} holds no mapping of flags to values")
    return {str(key).replace("_", "-"): value for key, value in content.items()}


def value_of(flag: str, arguments: Sequence[str]) -> str | None:
    """The value that follows a flag on the command line, or after its `=`; None without one."""
    for index, argument in enumerate(arguments):
        if argument == flag and index + 1 < len(arguments):
            return arguments[index + 1]
        if argument.startswith(f"{flag}="):
            return argument.partition("=")[2]
    return None


def compilation_arguments(named: frozenset[str]) -> tuple[list[str], str]:
    """The arguments to add so that a machine without a compiler can start, and what to tell the user."""
    if named & COMPILATION_FLAGS:
        return [], "compilation as the command line says"
    possible, reason = can_compile()
    if possible:
        return (
            [],
            f"compiling the model, since {reason}; this takes a minute or more (--enforce-eager does not)",
        )
    return ["--enforce-eager"], f"starting eager, since {reason}"


def sharing_arguments(named: frozenset[str]) -> list[str]:
    """The arguments to add so that on hybrid models an answer pass finds the windows of its score pass.

    By vLLM's default a sliding-window group keeps little but the end of each prompt.
    """
    return [] if RETENTION_FLAG in named else [f"--{RETENTION_FLAG}", "None"]


def default_model_arguments(named: frozenset[str], name: str) -> list[str]:
    """The arguments to add for the default model: local, under its own name, with a small machine's cache."""
    added = []
    if "host" not in named:
        added += ["--host", "127.0.0.1"]
    if "served-model-name" not in named:
        added += ["--served-model-name", name]
    own_size = named & CACHE_FLAGS or "VLLM_CPU_KVCACHE_SPACE" in os.environ
    if on_cpu() and not own_size:
        added += ["--kv-cache-memory-bytes", CPU_CACHE]
    return added


def on_cpu() -> bool:
    """Whether the vLLM that is installed is the one for the CPU."""
    try:
        importlib.metadata.version("vllm-cpu")
    except importlib.metadata.PackageNotFoundError:
        return False
    return True
