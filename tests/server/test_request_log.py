"""A finished prompt is one line of JSON that holds no text."""

import json
import logging

import pytest

from server.request_log import LOGGER, log_request
from server.request_record import PromptRecord


def _record() -> PromptRecord:
    record = PromptRecord(arrival=0.0, prompt_tokens=900, mode="qgpm", relevance="heads")
    record.seconds |= {"score": 0.25, "first_token": 0.5, "total": 1.0}
    record.top = [{"text": "Nadia keeps the keys."}]
    record.output_tokens = 12
    record.outcome = "success"
    return record


def test_a_line_says_what_was_done_and_holds_no_text(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO, LOGGER):
        log_request("chatcmpl-1", "chatcmpl-1-0", _record())
    (line,) = (record.getMessage() for record in caplog.records)
    said = json.loads(line)
    assert (said["id"], said["request"]) == ("chatcmpl-1", "chatcmpl-1-0")
    assert (said["mode"], said["outcome"], said["reason"]) == ("qgpm", "success", None)
    assert said["tokens"] == {"prompt": 900, "score_cached": None, "answer_cached": None, "output": 12}
    assert said["seconds"] == {"score": 0.25, "first_token": 0.5, "total": 1.0}
    assert "Nadia" not in line
    assert "\n" not in line


def test_nothing_is_written_unless_asked_for(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING, LOGGER):
        log_request("chatcmpl-1", "chatcmpl-1-0", _record())
    assert caplog.records == []
