"""Where cache memory goes, asked of the engine core when somebody wants to know."""

import asyncio
from collections.abc import Mapping, Sequence
from typing import Any

from vllm.v1.engine.exceptions import EngineDeadError

from cache.accounting import Pool, describe_memory
from cache.scheduler import DESCRIBE_CACHE
from server.engine import RopewayEngine

_LOOK_SECONDS = 0.5


class CacheAccount:
    """The pools of an engine (of its rank with the largest ones) and what they hold."""

    def __init__(self, engine: RopewayEngine, ranks: Sequence[Sequence[Mapping[str, Any]]]) -> None:
        """`ranks`: each rank's pools, as its worker describes them.

        They differ in the shadow only, as heads are split over ranks.
        """
        self._engine = engine
        pools = [[Pool.from_json(pool) for pool in rank] for rank in ranks]
        self._pools = max(pools, key=lambda rank: sum(pool.bytes_total for pool in rank))

    async def read(self) -> dict[str, Any]:
        """JSON of `GET /v1/cache`; the engine answers between two steps. Raises EngineDeadError."""
        memo = self._engine.memo
        return {
            **describe_memory(self._pools, await self._ask()),
            "memo": memo.describe(),
            "invalidations": dict(memo.invalidations),
        }

    async def _ask(self) -> dict[str, Any]:
        asking = asyncio.ensure_future(self._engine.engine_core.call_utility_async(DESCRIBE_CACHE))
        try:
            while not asking.done():
                if self._engine.errored:  # nobody would answer
                    raise self._engine.dead_error
                await asyncio.wait({asking}, timeout=_LOOK_SECONDS)
            told: dict[str, Any] = asking.result()
            return told
        except EngineDeadError:
            raise
        except Exception as error:  # vLLM has no narrower one for a core that is shutting down
            raise self._engine.dead_error from error
        finally:
            asking.cancel()
