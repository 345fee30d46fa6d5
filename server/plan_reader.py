"""What `ropeway plan` tells of a model: its layers, and what its requests take of the cache.

The model is built and measured as for serving; no cache is allocated.
"""

import json
import sys
from argparse import Namespace
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from vllm.config import VllmConfig
from vllm.engine.arg_utils import AsyncEngineArgs
from vllm.entrypoints.serve.utils.api_utils import cli_env_setup
from vllm.model_executor.models.utils import extract_layer_index
from vllm.v1.attention.backends.utils import resolve_kv_cache_layout
from vllm.v1.core.kv_cache_utils import get_kv_cache_configs
from vllm.v1.core.single_type_kv_cache_manager import register_all_kvcache_specs
from vllm.v1.executor.abstract import Executor
from vllm.v1.kv_cache_interface import KVCacheConfig

from cache.accounting import Group, Pool, planned_pool
from cache.pin import check_vllm_version
from cache.registration import register_architectures
from server.engine_config import REFUSALS, StartError, configured, head_profile
from server.flags import FlagError, parse
from server.plan_table import table

_SHORTEST = 1024


def run(model: str | None, arguments: Sequence[str], lengths: Sequence[int], as_json: bool) -> int:
    """Print the plan of a model, of given lengths or of usual ones; the exit status.

    `arguments` are those of `serve`.
    """
    try:
        check_vllm_version()
        register_architectures()
        cli_env_setup()
        plan = read(parse(model, arguments), lengths)
    except REFUSALS as error:
        print(f"ropeway plan: {error}", file=sys.stderr)
        return 2
    print(json.dumps(plan, indent=2) if as_json else table(plan))
    return 0


def read(args: Namespace, lengths: Sequence[int]) -> dict[str, Any]:
    """The plan as JSON; without lengths, of some up to the model's own.

    Raises UnsupportedModelError, StartError and FlagError.
    """
    config, _ = configured(AsyncEngineArgs.from_cli_args(args), head_profile(args), args)
    try:
        layers, pool = _measured(config)
    except ValueError as error:
        raise StartError(f"{args.model} cannot be loaded: {error}") from error
    # Not earlier: `--max-model-len -1` becomes what the cache has room for.
    longest = config.model_config.max_model_len
    if too_long := [length for length in lengths if length > longest]:
        raise FlagError("--lengths", f"{too_long[0]} tokens are more than --max-model-len, {longest}")
    groups = {layer: group for group in pool.groups for layer in group.layers}
    phases = {layer["layer"]: layer["cache"]["phase_bytes"] for layer in layers["layers"]}
    for layer in layers["layers"]:
        group = groups[layer["layer"]]
        layer["bytes_per_token"] = _bytes_per_token(group) // len(group.layers) + phases[layer["layer"]]
    pool = _with_phases(pool, phases)
    return {
        "model": args.model,
        **layers,
        "cache": {
            "bytes_total": pool.bytes_total,
            "bytes_per_token": sum(map(_bytes_per_token, pool.groups)),
            "groups": [_group(group) for group in pool.groups],
            "lengths": [_length(pool, length) for length in lengths or _usual_lengths(longest)],
        },
    }


def _measured(config: VllmConfig) -> tuple[dict[str, Any], Pool]:
    """The layer plan, and the cache that one rank would allocate."""
    register_all_kvcache_specs(config)
    executor = Executor.get_class(config)(config)
    try:
        plan = executor.collective_rpc("describe_plan")[0]
        cache = _cache(config, executor)
    finally:
        executor.shutdown()
    names = [name for group in cache.kv_cache_groups for name in group.layer_names]
    return plan, planned_pool(cache, {name: extract_layer_index(name) for name in names})


def _cache(config: VllmConfig, executor: Executor) -> KVCacheConfig:
    """The first rank's cache, planned as the engine does it at its start."""
    specs = executor.get_kv_cache_specs()
    layouts = executor.get_supported_kv_cache_layouts()
    layout = resolve_kv_cache_layout(config, layouts, [spec for rank in specs for spec in rank.values()])
    executor.set_kv_cache_layout(layout.name)
    return get_kv_cache_configs(config, specs, executor.determine_available_memory())[0]


def _with_phases(pool: Pool, phases: Mapping[int, int]) -> Pool:
    """The pool with what a token's phases take beside it, by layer, in the bytes of its groups."""
    return replace(
        pool,
        groups=tuple(
            replace(
                group,
                block_bytes=group.block_bytes + group.block_size * sum(phases[x] for x in group.layers),
            )
            for group in pool.groups
        ),
    )


def _usual_lengths(longest: int) -> list[int]:
    lengths = [_SHORTEST * 4**step for step in range(16)]
    return [*(length for length in lengths if length < longest), longest]


def _group(group: Group) -> dict[str, Any]:
    return {
        "name": group.name,
        "layers": list(group.layers),
        "window": group.window,
        "block_size": group.block_size,
        "bytes_per_token": _bytes_per_token(group),
    }


def _bytes_per_token(group: Group) -> int:
    return group.block_bytes // group.block_size


def _length(pool: Pool, tokens: int) -> dict[str, Any]:
    """What a request of so many tokens holds while it decodes, and how many of them fit at once."""
    whole = sum(-(-tokens // group.block_size) * group.block_bytes for group in pool.groups)
    return {
        "tokens": tokens,
        "bytes": pool.request_bytes(tokens),
        "bytes_without_windows": whole,
        "requests": pool.requests(tokens),
    }
