"""Keeps overrides from taking the rotation from layers that were trained with it."""

import copy

from vllm.engine.arg_utils import AsyncEngineArgs
from vllm.transformers_utils.config import get_hf_text_config

from cache.declaration import rotated_layers
from server.flags import FlagError
from server.rope_start import read_config


def check_rotation_kept(args: AsyncEngineArgs) -> None:
    """Refuse `--hf-overrides` by which a layer would no longer rotate; raises FlagError, naming the layers.

    It is an intervention on the architecture, not another way to load the model. Raises OSError or ValueError
    for a model that cannot be read.
    """
    if not args.hf_overrides:
        return
    own = copy.copy(args)
    own.hf_overrides = {}
    pairs = zip(_rotated(own), _rotated(args), strict=False)
    dropped = [str(index) for index, (before, after) in enumerate(pairs) if before and not after]
    if dropped:
        raise FlagError(
            "--hf-overrides",
            f"layers {', '.join(dropped)} were trained with rotation and would have none, which changes what "
            "the model computes: leave it as it is, or say --drop-rotation",
        )


def _rotated(args: AsyncEngineArgs) -> tuple[bool, ...]:
    return rotated_layers(get_hf_text_config(read_config(args)))
