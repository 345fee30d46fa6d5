"""How many score passes each holder of an API key has under way."""

import math
import time
from collections import Counter
from dataclasses import dataclass, field
from http import HTTPStatus
from types import TracebackType
from typing import Self

from server.limits import LimitError

_LEARNED = 0.2  # what the latest pass counts among those before it


class ScorePasses:
    """At most `most` at a time for each holder, 0 for any number; for one thread.

    Who holds no key shares one count: on a server without keys, everybody.
    """

    def __init__(self, most: int) -> None:
        self._most = most
        self._running: Counter[bytes | None] = Counter()
        self._seconds = 0.0  # of recent passes

    def running(self, holder: bytes | None) -> int:
        """How many a holder has under way."""
        return self._running[holder]

    def place(self, holder: bytes | None) -> "Place":
        """A place for one score pass, which is taken only once it turns out that there will be one."""
        return Place(self, holder)

    def enter(self, holder: bytes | None) -> None:
        """Count one; raises LimitError, with the seconds that a pass took lately."""
        if self._most and self._running[holder] >= self._most:
            raise LimitError(
                "score_passes",
                "qgpm",
                f"{self._running[holder]} score passes run for this API key, but this server takes "
                f"{self._most} at a time (--max-score-passes)",
                HTTPStatus.TOO_MANY_REQUESTS,
                max(1, math.ceil(self._seconds)),
            )
        self._running[holder] += 1

    def leave(self, holder: bytes | None, seconds: float) -> None:
        """Count one less, which took so many seconds."""
        self._seconds += _LEARNED * (seconds - self._seconds)
        self._running[holder] -= 1
        if not self._running[holder]:
            del self._running[holder]


@dataclass(slots=True)
class Place:
    """One score pass's place; as a context it is taken at once."""

    passes: ScorePasses
    holder: bytes | None
    _since: float | None = field(default=None)
    _closed: bool = field(default=False)

    def take(self) -> None:
        """Take the place, unless the request has ended meanwhile; raises LimitError."""
        if not self._closed:
            self.passes.enter(self.holder)
            self._since = time.monotonic()

    def release(self) -> None:
        """Give the place back, where it was taken; it is not taken again."""
        self._closed = True
        if self._since is not None:
            self.passes.leave(self.holder, time.monotonic() - self._since)
            self._since = None

    def __del__(self) -> None:
        # A stream that its client leaves before the first byte is never begun, and so never ends.
        self.release()

    def __enter__(self) -> Self:
        self.take()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.release()
