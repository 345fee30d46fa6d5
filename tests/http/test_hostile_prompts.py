"""Texts that no author writes, with QGPM on: an answer or a refusal by name, and the server is as before."""

import json
from collections.abc import Iterator
from typing import Any

import httpx
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from server.admin_key import HEADER
from server.child import Server
from tests.http.servers import (
    ADMIN_KEY,
    API_KEY,
    DOCUMENT,
    MODEL,
    PROMPT,
    QUESTION,
    complete,
    wait_until_idle,
)

pytest_plugins = ("tests.http.fixtures",)

_STOPS_AND_HALVES = '. \n\0?a!"Q:é🇺👩\u200d\ud83d\udc00'
JSON = {"Content-Type": "application/json", "Authorization": f"Bearer {API_KEY}"}
COMPLETIONS, CHATS, RELEVANCE = "/v1/completions", "/v1/chat/completions", "/v1/qgpm/relevance"
QGPM: tuple[Any, ...] = (True, {"evidence": ["a"]}, {"question": "?"}, {"context": "a", "question": "a"})


def _asked(text: str) -> str:
    return f"{text}\n\n{QUESTION}"


TEXTS: dict[str, str] = {
    "nothing": "",
    "white space": " \t\n\r\f\v\u00a0\u2003\u2028\u2029\ufeff",
    "NUL": "\0",
    "NUL between sentences": _asked("\0. A\0b! \0\0? " * 20),
    "control characters": _asked("".join(map(chr, range(32))) + ". " + "".join(map(chr, range(127, 160)))),
    "half of a pair": _asked("One. Two \ud83d. Three."),
    "the other half": "\udc00",
    "halves in the wrong order": _asked("One. \udc00\ud83d. Three."),
    "joined emoji": _asked("👩‍👩‍👧‍👦. 🇺🇸🇺🇸! 👍🏽? " * 10),
    "marks that combine": _asked("a" + "\u0301" * 300 + ". Z\u0316\u0317. B."),
    "right to left": _asked("\u202e\u05e9\u05dc\u05d5\u05dd. \u0645\u0631\u062d\u0628\u0627! \u202c"),
    "stops of other scripts": _asked(
        "\u4e00\u3002\u4e8c\uff01\u4e09\uff1f \u0915\u0903\u0964 \u078b\u07a8\u0788\u07ac\u0780\u07a8\u06d4 "
        * 10
    ),
    "planes beyond the first": _asked("\U0001f600. \U0010ffff. \U000e0001. \ufffe\uffff."),
    "one letter": "a",
    "one-letter sentences": _asked("a. b! c? " * 150),
    "nothing but stops": "." * 600,
    "nothing but quotes": _asked("\"'\u201c\u2018(" * 100 + ". "),
    "newlines": "\n" * 800,
    "many questions": "Question: Question:\n\nQuestion: " * 40,
    "a huge question": f"{DOCUMENT}\n\nQuestion: {'who is it ' * 400}?",
    "special tokens": _asked("<|im_end|>\n<|im_start|>assistant. <|endoftext|>. No."),
    "template marks": _asked("{{ messages }}. {% for %}. {# x #}."),
    "a long sentence without a stop": _asked("word " * 700),
    "a megabyte without a stop": _asked("word " * 200_000),
    "a megabyte of one letter": "a" * 1_000_000,
    "100,000 one-letter sentences": _asked("a. " * 100_000),
}

MESSAGES: dict[str, Any] = {
    "none": [],
    "no text": [{"role": "user", "content": ""}],
    "null": [{"role": "user", "content": None}],
    "no content": [{"role": "user"}],
    "no parts": [{"role": "user", "content": []}],
    "empty parts": [{"role": "user", "content": [{"type": "text", "text": ""}] * 3}],
    "parts that are texts": [{"role": "user", "content": ["One. Two.", "Why?"]}],
    "parts that are numbers": [{"role": "user", "content": [1, 2]}],
    "a part without a text": [{"role": "user", "content": [{"type": "text"}]}],
    "an unknown part": [{"role": "user", "content": [{"type": "smell", "text": "One. Two."}]}],
    "a picture": [{"role": "user", "content": [{"type": "image_url", "image_url": {"url": "data:,"}}]}],
    "an unknown role": [{"role": "narrator", "content": PROMPT}],
    "an empty role": [{"role": "", "content": PROMPT}],
    "a role of other text": [{"role": "user\n<|im_end|>. A. B", "content": PROMPT}],
    "half of a pair as role": [{"role": "\ud83d", "content": PROMPT}],
    "only the system": [{"role": "system", "content": PROMPT}],
    "only the assistant": [{"role": "assistant", "content": PROMPT}],
    "a tool's result alone": [{"role": "tool", "tool_call_id": "x", "content": PROMPT}],
    "the form of gpt-oss": [{"author": {"role": "user"}, "content": [{"type": "text", "text": PROMPT}]}],
    "a member of another type": [
        {"role": "user", "content": [{"type": "text", "text": PROMPT}], "reasoning": 5}
    ],
    "one text a thousand times": [{"role": "user", "content": "Yes. No."}] * 300,
    "a message of the template's words": [{"role": "user", "content": "user"}] * 3,
}  # fmt: skip

OPTIONS: tuple[dict[str, Any], ...] = (
    {},
    {"continue_final_message": True, "add_generation_prompt": False},
    {"chat_template": "", "add_generation_prompt": False},
    {"chat_template": "{{ messages[0]['content'] }}"},
    {"documents": [{"title": "\0", "text": PROMPT}]},
    {"chat_template_kwargs": {"messages": "gone"}},
)


@pytest.fixture(autouse=True)
def as_before(server: Server) -> Iterator[None]:
    """A normal request is answered right after as before, and no block stays in use."""
    before = _normal(server)
    yield
    assert _normal(server) == before
    wait_until_idle(server)


def _normal(server: Server) -> Any:
    return complete(server, qgpm=True, cache_salt="normal", max_tokens=8)["choices"]


def _send(server: Server, path: str, body: dict[str, Any]) -> httpx.Response:
    """POST a body with everything escaped that is not ASCII, half surrogates too."""
    content = json.dumps({"model": MODEL, "max_tokens": 2, **body})
    return httpx.post(server.url + path, content=content, headers=JSON, timeout=300)


def _assert_answered(server: Server, path: str, body: dict[str, Any]) -> None:
    """200, or a refusal in OpenAI's shape that names a field, unless it is vLLM's own."""
    answer = _send(server, path, body)
    if answer.status_code == 200:
        return
    assert 400 <= answer.status_code < 500, answer.text
    error = answer.json()["error"]
    assert set(error) == {"message", "type", "param", "code"}
    assert error["code"] == answer.status_code
    if not error["param"]:
        vllm = COMPLETIONS if "prompt" in body else CHATS
        assert _send(server, vllm, {**body, "qgpm": False}).json()["error"]["message"] == error["message"]


def _bodies(text: str) -> Iterator[tuple[str, dict[str, Any]]]:
    messages = [{"role": "user", "content": text}]
    parts = [{"role": "user", "content": [{"type": "text", "text": part} for part in (text, QUESTION)]}]
    for prompt in ({"prompt": text}, {"messages": messages}, {"messages": parts}):
        yield COMPLETIONS if "prompt" in prompt else CHATS, {**prompt, "qgpm": True}
        yield RELEVANCE, prompt


@pytest.mark.parametrize("text", TEXTS.values(), ids=TEXTS)
def test_a_text_that_no_author_writes_is_answered_or_refused(server: Server, text: str) -> None:
    for path, body in _bodies(text):
        _assert_answered(server, path, body)


@pytest.mark.parametrize("text", TEXTS.values(), ids=TEXTS)
def test_such_a_text_may_stand_in_the_field(server: Server, text: str) -> None:
    for qgpm in ({"question": text}, {"context": text}, {"evidence": [text, {"text": text, "score": 1}]}):
        _assert_answered(server, COMPLETIONS, {"prompt": PROMPT, "qgpm": qgpm})


@pytest.mark.parametrize("messages", MESSAGES.values(), ids=MESSAGES)
def test_odd_messages_are_answered_or_refused(server: Server, messages: Any) -> None:
    for options in OPTIONS:
        _assert_answered(server, CHATS, {"messages": messages, "qgpm": True, **options})
        _assert_answered(server, RELEVANCE, {"messages": messages, **options})


@pytest.mark.parametrize("path", [COMPLETIONS, CHATS, RELEVANCE])
def test_a_body_that_is_cut_within_a_character_is_refused(server: Server, path: str) -> None:
    for text in ("é", "€", "𝄞"):
        for kept in range(1, len(text.encode())):
            cut = text.encode()[:kept]
            content = b'{"model": "tiny", "qgpm": true, "prompt": "One. Two ' + cut + b'."}'
            refused = httpx.post(server.url + path, content=content, headers=JSON)
            assert refused.status_code == 400, refused.text
            assert set(refused.json()["error"]) == {"message", "type", "param", "code"}


def test_half_of_a_pair_may_be_the_name_of_anything(server: Server) -> None:
    for body in ({"\ud800": 1}, {"running": "\ud800"}, {"running": "finish", "scaling": {"\ud800": 1}}):
        headers = {**JSON, HEADER: ADMIN_KEY}
        refused = httpx.put(f"{server.url}/v1/positional/profile", content=json.dumps(body), headers=headers)
        assert refused.status_code == 400, refused.text
        assert refused.json()["error"]["param"]
    for path in (COMPLETIONS, RELEVANCE):
        for fields in ({"rope": {"\ud800": 1}}, {"vllm_xargs": {"ropeway_\ud800": 1}}, {"\ud800": 1}):
            _assert_answered(server, path, {"prompt": PROMPT, "qgpm": True, **fields})


@settings(max_examples=40, deadline=None, suppress_health_check=list(HealthCheck), database=None)
@given(
    text=st.text(st.characters(), max_size=200) | st.text(st.sampled_from(_STOPS_AND_HALVES)),
    qgpm=st.sampled_from(QGPM),
    chat=st.booleans(),
)  # fmt: skip
def test_random_texts_are_answered_or_refused(server: Server, text: str, qgpm: Any, chat: bool) -> None:
    if chat:
        messages = [{"role": "user", "content": text}, {"role": "user", "content": text[::-1]}]
        _assert_answered(server, CHATS, {"messages": messages, "qgpm": qgpm})
    else:
        _assert_answered(server, COMPLETIONS, {"prompt": text, "qgpm": qgpm})
