"""What tests ask of an engine, and what they get."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from cache.extra_args import FIRST, FORCE_TOKENS, MODULATION, PROFILE, SCORE_TASK, ScoreTask
from positional.modulation import Modulation
from positional.profile import Profile


@dataclass(frozen=True)
class Ask:
    """A request; it arrives before step `at`, and is aborted before step `abort_at`."""

    prompt: Sequence[int]
    forced: Sequence[int] = (5,)
    modulation: Modulation | None = None
    profile: Profile | None = None
    task: ScoreTask | None = None
    salt: str | None = None
    n: int = 1
    first: bool = False
    prompt_logprobs: bool = False
    at: int = 0
    abort_at: int | None = None

    @property
    def extra_args(self) -> dict[str, Any]:
        """What the request carries to engine core and worker."""
        carried: dict[str, Any] = {FORCE_TOKENS: list(self.forced)}
        if self.modulation is not None:
            carried[MODULATION] = self.modulation.to_bytes()
        if self.profile is not None:
            carried[PROFILE] = self.profile.to_bytes()
        if self.task is not None:
            carried[SCORE_TASK] = self.task.to_bytes()
        if self.first:
            carried[FIRST] = True
        return carried


@dataclass(frozen=True)
class Answer:
    """Log-probabilities of the forced tokens by choice, cached prompt tokens, relevance of a score pass.

    `relevance` float32 [sentences × heads]; `prompt_logprobs` of all prompt tokens but the first;
    `finished_at`: the step that ended the request.
    """

    choices: tuple[tuple[float, ...], ...]
    cached: int
    relevance: npt.NDArray[np.float32] | None
    prompt_logprobs: tuple[float, ...]
    finished_at: int

    @property
    def logprobs(self) -> tuple[float, ...]:
        """Those of the only choice."""
        (choice,) = self.choices
        return choice
