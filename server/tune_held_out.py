"""The last step of `ropeway tune`: is the best candidate better than the defaults on samples held out?

The one with the higher mean is taken: where neither is surely better, to stay would favour settings that were
not measured for this model either.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from statistics import fmean
from typing import Literal

from scipy import stats

from cache.head_profile import Gain
from positional.qgpm import QGPMConfig
from server.tune_search import BLOCKS, SEARCHED, BlockGain, Objective

FIRST_BLOCK = SEARCHED
"""The blocks before are the search's."""
MOST_BLOCKS = 2 * BLOCKS
FEWEST_BLOCKS = 3
"""Below, an interval says nothing."""
CONFIDENCE = 0.95


@dataclass(slots=True)
class HeldOut:
    """Gains of the defaults before (`incumbent`) and of the best candidate on the same blocks.

    Where the incumbent is the best candidate itself, it is measured once.
    """

    incumbent: QGPMConfig
    challenger: QGPMConfig
    incumbent_gains: list[BlockGain] = field(default_factory=list)
    challenger_gains: list[BlockGain] = field(default_factory=list)

    @property
    def difference(self) -> Gain | None:
        """What the challenger adds to the incumbent; None where too few blocks tell."""
        pairs = zip(self.challenger_gains, self.incumbent_gains, strict=True)
        return interval([new.total - old.total for new, old in pairs])

    @property
    def changes(self) -> bool:
        """Whether the challenger's mean is higher; otherwise the incumbent stays."""
        return self.difference is not None and self.difference.mean > 0

    @property
    def chosen(self) -> QGPMConfig:
        """The settings that go into the profile."""
        return self.challenger if self.changes else self.incumbent

    def gain(self, source: Literal["evidence", "heads"]) -> Gain | None:
        """What the chosen settings add to plain; None where too few blocks tell."""
        chosen = self.challenger_gains if self.changes else self.incumbent_gains
        return interval([getattr(gain, source) for gain in chosen])


def run(held_out: HeldOut, objective: Objective, goes_on: Callable[[], bool]) -> None:
    """Fills `held_out` block by block, both sides of each, while `goes_on`, asked before each, says so."""
    for block in range(FIRST_BLOCK, FIRST_BLOCK + MOST_BLOCKS):
        if not goes_on():
            return
        old = objective(held_out.incumbent, block)
        same = held_out.challenger == held_out.incumbent
        new = old if same else objective(held_out.challenger, block)
        held_out.incumbent_gains.append(old)
        held_out.challenger_gains.append(new)


def interval(values: Sequence[float]) -> Gain | None:
    """The mean and Student's interval of blocks' means; None for fewer than `FEWEST_BLOCKS`."""
    if len(values) < FEWEST_BLOCKS:
        return None
    return Gain(*(round(value, 3) for value in bounds(values)))


def bounds(values: Sequence[float]) -> tuple[float, float, float]:
    """The mean of at least two values, and the low and high end of Student's interval."""
    mean = fmean(values)
    reach = float(stats.t.ppf((1 + CONFIDENCE) / 2, len(values) - 1)) * float(stats.sem(values))
    return mean, mean - reach, mean + reach
