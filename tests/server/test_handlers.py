"""What is read from a body leaves it as vLLM is to see it."""

from typing import Any

import pytest
from pydantic import ValidationError
from vllm.entrypoints.openai.chat_completion.protocol import ChatCompletionRequest
from vllm.entrypoints.openai.completion.protocol import CompletionRequest

from server.handlers import keep_parts, read_source
from server.relevance_body import read_body
from server.request_error import RequestError

PARTS = [{"type": "text", "text": "Yes. No."}, {"type": "text", "text": "Why?"}]
# Members of a message whose type vLLM does not know them by: its parts are then checked when they are read.
ODD_MEMBERS: list[dict[str, Any]] = [
    {},
    {"reasoning": 5},
    {"reasoning": {"steps": []}},
    {"task": 1},
    {"tools": "all"},
]
ROLES = ("system", "user", "assistant", "developer", "tool")
HARMONY = {"author": {"role": "user"}, "content": [{"type": "text", "text": "Yes. No. Why?"}]}


def _chat(message: dict[str, Any]) -> dict[str, Any]:
    return {"model": "m", "messages": [message, {"role": "user", "content": "Why?"}]}


@pytest.mark.parametrize("role", ROLES)
@pytest.mark.parametrize("odd", ODD_MEMBERS, ids=str)
def test_reading_the_parts_of_a_message_takes_none_away(role: str, odd: dict[str, Any]) -> None:
    message = {"role": role, "content": PARTS, "tool_call_id": "call", "name": "a name", **odd}
    bodies: list[Any] = [read_body(_chat(message)), ChatCompletionRequest.model_validate(_chat(message))]
    for body in bodies:
        keep_parts(body)
        assert read_source(body).messages == ((role, "Yes. No."), (role, "Why?"), ("user", "Why?"))
        assert list(body.messages[0]["content"]) == PARTS


@pytest.mark.parametrize("content", [[5], ["text"], [{"type": "text"}], {"type": "text"}])
def test_a_part_that_is_none_is_refused_as_rendering_would(content: Any) -> None:
    body = ChatCompletionRequest.model_validate(_chat({"role": "user", "content": content}))
    with pytest.raises(ValidationError):
        keep_parts(body)
    with pytest.raises(RequestError):
        read_body(_chat({"role": "user", "content": content}))


@pytest.mark.parametrize(
    "fields", [{"structured_outputs": 5}, {"prompt": "One.", "structured_outputs": True}]
)
def test_a_value_that_breaks_vllm_s_own_checks_is_refused(fields: dict[str, Any]) -> None:
    with pytest.raises(RequestError):
        read_body({"model": "m", "prompt": "One.", **fields})


def test_a_message_in_the_form_of_gpt_oss_has_no_text() -> None:
    body = ChatCompletionRequest.model_validate(_chat(HARMONY))
    assert not isinstance(body.messages[0], dict)
    keep_parts(body)
    assert read_source(body).messages == (("user", "Why?"),)


def test_a_completion_has_no_messages() -> None:
    body = CompletionRequest(model="m", prompt="Yes. No.")
    keep_parts(body)
    assert read_source(body).messages is None
