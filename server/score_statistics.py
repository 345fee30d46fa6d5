"""vLLM's output processor, silent about score passes."""

from typing import Any

from vllm.v1.engine import EngineCoreRequest
from vllm.v1.engine.output_processor import OutputProcessor, RequestState

from cache.extra_args import SCORE_TASK


class UserRequestsOutputProcessor(OutputProcessor):
    """Counts and traces user requests only: a score pass has no statistics of its own."""

    def add_request(self, request: EngineCoreRequest, *args: Any, **kwargs: Any) -> None:
        """Register a request; a score pass without statistics."""
        super().add_request(request, *args, **kwargs)
        parameters = request.sampling_params
        if parameters is not None and SCORE_TASK in (parameters.extra_args or {}):
            self.request_states[request.request_id].stats = None

    def do_tracing(self, engine_core_output: Any, req_state: RequestState, *args: Any) -> None:
        """Trace a user request's end."""
        if req_state.stats is not None:
            super().do_tracing(engine_core_output, req_state, *args)

    def _update_stats_from_output(self, req_state: RequestState, *args: Any) -> None:
        if req_state.stats is not None:
            super()._update_stats_from_output(req_state, *args)

    def _update_stats_from_finished(self, req_state: RequestState, *args: Any) -> None:
        if req_state.stats is not None:
            super()._update_stats_from_finished(req_state, *args)
