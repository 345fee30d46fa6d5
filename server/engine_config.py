"""The engine's configuration: vLLM's, with what Ropeway must set, and what keeps an engine from starting."""

from argparse import Namespace
from pathlib import Path

from vllm.config import VllmConfig
from vllm.engine.arg_utils import AsyncEngineArgs
from vllm.platforms import current_platform
from vllm.usage.usage_lib import UsageContext

from cache.head_profile import HeadProfile, HeadProfileError, find, load
from cache.pin import VersionMismatchError
from cache.plan import refuse_by_name
from cache.settings import EngineSettings
from cache.unsupported import UnsupportedModelError
from server.flags import FlagError
from server.rope_choice import ServedRope
from server.rope_start import start_rope
from server.rotation import check_rotation_kept


class StartError(RuntimeError):
    """The engine cannot start; the message says why."""


REFUSALS = (VersionMismatchError, FlagError, HeadProfileError, UnsupportedModelError, StartError)
"""What ends a command with one line that says why."""


def head_profile(args: Namespace) -> HeadProfile | None:
    """The head profile of the model to serve; a model that is not a local folder brings none of its own.

    Raises StartError and HeadProfileError.
    """
    folder = Path(args.model)
    if folder.is_absolute() and not folder.exists():
        raise StartError(f"there is no model at {folder}")
    if folder.is_dir():
        return find(folder, args.head_profile)
    return None if args.head_profile is None else load(args.head_profile)


def configured(
    engine_args: AsyncEngineArgs, heads: HeadProfile | None, args: Namespace
) -> tuple[VllmConfig, ServedRope | None]:
    """The engine's configuration with what Ropeway must set: worker, scheduler, settings, RoPE's rules.

    Raises StartError for a model that cannot be read, FlagError for flags that do not fit it, and
    UnsupportedModelError.
    """
    settings = EngineSettings(() if heads is None else heads.pairs)
    engine_args.additional_config = {**(engine_args.additional_config or {}), **settings.to_config()}
    kind = "CPU" if current_platform.is_cpu() else "GPU"
    engine_args.worker_cls = f"cache.worker.Ropeway{kind}Worker"
    try:
        if not args.drop_rotation:
            check_rotation_kept(engine_args)
        rope = start_rope(engine_args, args.rope_policy == "auto", args.rope_scaling)
        engine_args.hf_overrides = rope.hf_overrides
        engine_args.max_model_len = rope.max_model_len
        config = engine_args.create_engine_config(usage_context=UsageContext.OPENAI_API_SERVER)
    except FlagError:
        raise
    except (OSError, ValueError) as error:
        raise StartError(f"{engine_args.model} cannot be served: {error}") from error
    refuse_by_name(config)
    scheduler = "RopewayAsyncScheduler" if config.scheduler_config.async_scheduling else "RopewayScheduler"
    config.scheduler_config.scheduler_cls = f"cache.scheduler.{scheduler}"
    return config, rope.served
