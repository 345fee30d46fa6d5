"""What is left of the time that `ropeway tune` was given, and how its bars show it."""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

BAR = "{desc}: {percentage:3.0f}%|{bar}| {n}/{total} s{postfix}"


@dataclass(slots=True)
class Clock:
    """What is left of the time; a step is begun only where one as long as the longest so far fits.

    `end` is in the time of `now`, in seconds.
    """

    end: float
    now: Callable[[], float] = time.monotonic
    longest: float = 0.0

    @property
    def left(self) -> float:
        """Seconds until the end."""
        return self.end - self.now()

    @contextmanager
    def step(self) -> Iterator[None]:
        """Around a step."""
        started = self.now()
        yield
        self.longest = max(self.longest, self.now() - started)

    def allows(self, steps: int, kept_back: float = 0.0) -> bool:
        """Whether so many steps fit before the last `kept_back` seconds."""
        return steps * self.longest < self.left - kept_back
