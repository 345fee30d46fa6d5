"""One line of JSON a finished prompt; never what was asked or answered."""

import json
import logging
import sys
from datetime import UTC, datetime

from vllm import envs

from server.request_record import PromptRecord

LOGGER = "ropeway.requests"

_log = logging.getLogger(LOGGER)


def log_requests() -> None:
    """Write the lines to where vLLM's log goes, unless a logging configuration says otherwise."""
    _log.setLevel(logging.INFO)
    if _log.handlers:
        return
    stream = sys.stderr if envs.VLLM_LOGGING_STREAM == "ext://sys.stderr" else sys.stdout
    handler = logging.StreamHandler(stream)
    handler.setFormatter(logging.Formatter("%(message)s"))
    _log.addHandler(handler)
    _log.propagate = False


def log_request(response_id: str, request_id: str, record: PromptRecord) -> None:
    """Log a prompt that has ended.

    `response_id`: of the OpenAI response, as in `GET /v1/requests/{id}`; `request_id`: the prompt's own, as
    in vLLM's log and spans.
    """
    if not _log.isEnabledFor(logging.INFO):
        return
    line = {
        "time": datetime.now(UTC).isoformat(timespec="milliseconds"),
        "level": "INFO",
        "event": "request",
        "id": response_id,
        "request": request_id,
        "mode": record.mode,
        "reason": record.reason,
        "relevance": record.relevance,
        "memo": record.memo,
        "outcome": record.outcome,
        "sentences": record.sentences,
        "tokens": record.tokens(),
        "profile": record.profile.get("digest"),
        "rebuilt": record.rebuilt,
        "seconds": {stage: round(seconds, 6) for stage, seconds in record.seconds.items()},
    }
    _log.info("%s", json.dumps(line))
