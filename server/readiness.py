"""Whether requests should be sent here, and why not."""

from collections.abc import Callable
from dataclasses import dataclass
from http import HTTPStatus
from typing import Literal

from fastapi import APIRouter, Request
from fastapi.responses import JSONResponse
from vllm.entrypoints.serve.engine.protocol import ErrorResponse

from server.answers import Ready
from server.drain import RETRY_AFTER_SECONDS, Drain
from server.error_response import OwnRoute
from server.pulse import Pulse

Status = Literal["ready", "starting", "stalled", "draining", "dead"]

router = APIRouter(route_class=OwnRoute)


@dataclass(frozen=True, slots=True)
class State:
    """What `/ready` says; `reason` is None for `ready`."""

    status: Status
    reason: str | None = None


@dataclass(frozen=True, slots=True)
class Readiness:
    """What tells whether a server is ready; `dead`: whether its engine is; a stall lasts `stall_seconds`."""

    pulse: Pulse
    drain: Drain
    dead: Callable[[], bool]
    stall_seconds: float

    def state(self) -> State:
        """The state of now; a server that drains is no more than that, whatever its engine does."""
        if self.drain.started:
            return State("draining", "the server is shutting down; running requests may finish")
        if self.dead():
            return State("dead", "the engine has died; the server's log says why")
        seconds = self.pulse.seconds_since_progress()
        if seconds > self.stall_seconds:
            return State("stalled", f"the engine has made no progress for {seconds:.0f} s")
        if not self.pulse.heard:
            return State("starting", "the engine has not answered yet")
        return State("ready")

    def ready(self) -> bool:
        """Whether `/ready` answers 200."""
        return self.state().status == "ready"


@router.get(
    "/ready",
    responses={
        HTTPStatus.OK.value: {"model": Ready},
        HTTPStatus.SERVICE_UNAVAILABLE.value: {"model": Ready},
        HTTPStatus.METHOD_NOT_ALLOWED.value: {"model": ErrorResponse},
    },
)
async def get_ready(request: Request) -> JSONResponse:
    """200 where requests are answered, 503 with the reason where they are not."""
    readiness: Readiness = request.app.state.ropeway_readiness
    state = readiness.state()
    if state.reason is None:
        return JSONResponse({"status": state.status})
    return JSONResponse(
        {"status": state.status, "reason": state.reason},
        status_code=HTTPStatus.SERVICE_UNAVAILABLE,
        headers={"Retry-After": str(RETRY_AFTER_SECONDS)},
    )
