"""Forced tokens at a pace that the readers of a tiny model keep up with."""

import os
import time

import torch

from cache import forced_tokens
from tests.support.forced import STEP_SECONDS


class ForceTokens(forced_tokens.ForceTokens):
    """Forces tokens, and sleeps at each step for as long as `STEP_SECONDS` says."""

    def apply(self, logits: torch.Tensor) -> torch.Tensor:
        # A tiny model is done with hundreds of tokens before an API process on the same core reads one.
        time.sleep(float(os.environ.get(STEP_SECONDS, 0)))
        return super().apply(logits)
