"""The engine core's progress, as it tells it itself every other second."""

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable, Sequence

from vllm.v1.engine.exceptions import EngineDeadError

INTERVAL_SECONDS = 2.0

_log = logging.getLogger("ropeway.pulse")


class Pulse:
    """How long ago the engine core was seen to compute tokens, or to have nothing to do.

    Asking goes the way of every request: in by the core's input thread, answered between two steps. So what
    stops requests stops the answers too, be it a worker that hangs or a thread that died, and nothing has to
    be sent per step. A long prefill is progress at the end of each of its chunks.
    """

    def __init__(
        self, ask: Callable[[], Awaitable[Sequence[int]]], clock: Callable[[], float] = time.monotonic
    ) -> None:
        """`ask`: tokens computed so far and requests not finished, from the core."""
        self._ask = ask
        self._clock = clock
        self._computed = -1
        self._busy = False
        self._asked: float | None = None
        self._progress = clock()
        self.heard = False

    async def watch(self) -> None:
        """Ask again and again; returns when the engine is dead."""
        while True:
            try:
                await self.look()
            except EngineDeadError:
                return
            except Exception as error:  # vLLM has no narrower one for a core that is shutting down
                _log.warning("the engine core does not say how far it is: %s", error)
            await asyncio.sleep(INTERVAL_SECONDS)

    async def look(self) -> None:
        """Ask once, and wait for the answer however long it takes; raises what asking raises."""
        if self._asked is None:
            self._asked = self._clock()
        computed, unfinished = await self._ask()
        if computed != self._computed or not unfinished:
            self._progress = self._clock()
        self._computed, self._busy = computed, unfinished > 0
        self._asked, self.heard = None, True

    def seconds_since_progress(self) -> float:
        """Seconds since requests that run made progress; 0 where none runs and the core answers."""
        since = self._progress if self._busy else self._asked
        return 0.0 if since is None else self._clock() - since
