"""The official OpenAI client against a running server, with and without QGPM."""

import asyncio
import json
from collections.abc import Iterator
from typing import Any

import httpx
import openai
import pytest
from transformers import AutoTokenizer

from server.child import Server
from server.likelihood import force
from tests.http.servers import (
    API_KEY,
    MODEL,
    PASSAGE,
    PROMPT,
    QUESTION,
    chat,
    complete,
    metric,
    post,
    record,
    wait_until,
    wait_until_idle,
)
from tests.support.prose import document

pytest_plugins = ("tests.http.fixtures",)

MESSAGES: Any = [{"role": "user", "content": PROMPT}]
LONG = f"{document(215, seed=5)}\n\n{QUESTION}"
MODES: list[Any] = [False, True, {"evidence": [PASSAGE]}]


@pytest.fixture
def client(server: Server) -> Iterator[openai.OpenAI]:
    with openai.OpenAI(base_url=f"{server.url}/v1", api_key=API_KEY, max_retries=0) as made:
        yield made


@pytest.mark.parametrize("qgpm", MODES)
def test_a_stream_brings_the_text_of_the_whole_answer(client: openai.OpenAI, qgpm: Any) -> None:
    asked: dict[str, Any] = {"model": MODEL, "messages": MESSAGES, "max_tokens": 12, "temperature": 0}
    whole = client.chat.completions.create(**asked, extra_body={"qgpm": qgpm})
    chunks = list(
        client.chat.completions.create(
            **asked, stream=True, stream_options={"include_usage": True}, extra_body={"qgpm": qgpm}
        )
    )
    pieces = [chunk.choices[0].delta.content or "" for chunk in chunks if chunk.choices]
    assert "".join(pieces) == whole.choices[0].message.content
    assert len({chunk.id for chunk in chunks}) == 1
    usage = chunks[-1].usage
    assert usage is not None
    assert whole.usage is not None
    assert usage.prompt_tokens == whole.usage.prompt_tokens
    assert usage.completion_tokens == whole.usage.completion_tokens
    assert usage.prompt_tokens_details is not None
    assert usage.prompt_tokens_details.cached_tokens


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("qgpm", MODES)
def test_completions_answer_too(client: openai.OpenAI, qgpm: Any, stream: bool) -> None:
    asked: dict[str, Any] = {"model": MODEL, "prompt": PROMPT, "max_tokens": 5, "extra_body": {"qgpm": qgpm}}
    answer = client.completions.create(**asked, stream=stream, temperature=0)
    chunks = list(answer) if stream else [answer]
    assert chunks[-1].choices[0].finish_reason in ("length", "stop")


def test_qgpm_changes_the_answer_and_false_does_not(server: Server) -> None:
    forced = {**force([40, 77, 300, 301]), "logprobs": True}
    answers = [chat(server, **forced), *(chat(server, **forced, qgpm=qgpm) for qgpm in MODES)]
    plain, off, on, evidence = (
        [e["logprob"] for e in a["choices"][0]["logprobs"]["content"]] for a in answers
    )
    assert off == pytest.approx(plain, abs=1e-3)
    assert on != pytest.approx(plain, abs=1e-2)
    assert evidence != pytest.approx(plain, abs=1e-2)


@pytest.mark.parametrize("stream", [False, True])
def test_every_choice_of_one_request_has_the_same_positions(server: Server, stream: bool) -> None:
    """Three choices of forced tokens have three times the same log-probabilities, under one record."""
    body = {**force([40, 77, 300]), "n": 3, "temperature": 1, "logprobs": 0, "qgpm": True, "stream": stream}
    response = post(server, "/v1/completions", prompt=PROMPT, **body)
    chunks = _chunks(response.text) if stream else [response.json()]
    found: dict[int, list[float]] = {0: [], 1: [], 2: []}
    for choice in (choice for chunk in chunks for choice in chunk["choices"] if choice["logprobs"]):
        found[choice["index"]] += choice["logprobs"]["token_logprobs"]
    assert [len(values) for values in found.values()] == [3, 3, 3]
    assert found[0] == pytest.approx(found[1], abs=1e-3)
    assert found[0] == pytest.approx(found[2], abs=1e-3)
    assert record(server, chunks[0])["tokens"]["output"] == 9
    assert record(server, chunks[0])["outcome"] == "success"


def test_log_probabilities_come_with_their_alternatives(client: openai.OpenAI) -> None:
    answer = client.chat.completions.create(
        model=MODEL, messages=MESSAGES, max_tokens=3, temperature=0, logprobs=True, top_logprobs=2,
        extra_body={"qgpm": True, "ignore_eos": True},
    )  # fmt: skip
    logprobs = answer.choices[0].logprobs
    assert logprobs is not None
    assert logprobs.content is not None
    assert [len(entry.top_logprobs) for entry in logprobs.content] == [2, 2, 2]
    assert [entry.logprob for entry in logprobs.content] == [
        e.top_logprobs[0].logprob for e in logprobs.content
    ]


@pytest.mark.parametrize("qgpm", [False, True])
def test_a_stop_text_ends_the_answer(server: Server, checkpoint: Any, qgpm: bool) -> None:
    tokens = AutoTokenizer.from_pretrained(checkpoint)(" carried a copper kettle near the river").input_ids
    answer = complete(server, **force(tokens), stop=["kettle"], qgpm=qgpm)
    assert answer["choices"][0]["text"] == " carried a copper "
    assert answer["choices"][0]["stop_reason"] == "kettle"


def test_structured_outputs_hold_their_form(client: openai.OpenAI) -> None:
    schema = {
        "type": "object",
        "properties": {"answer": {"enum": ["yes", "no"]}},
        "required": ["answer"],
        "additionalProperties": False,
    }
    form: Any = {"type": "json_schema", "json_schema": {"name": "answer", "schema": schema}}
    answer = client.chat.completions.create(
        model=MODEL, messages=MESSAGES, max_tokens=60, temperature=0, response_format=form,
        extra_body={"qgpm": True, "structured_outputs": None},
    )  # fmt: skip
    assert json.loads(answer.choices[0].message.content or "")["answer"] in ("yes", "no")


def test_a_structured_choice_is_one_of_those_given(server: Server) -> None:
    options = {
        "max_tokens": 20,
        "ignore_eos": False,
        "structured_outputs": {"choice": ["the mill", "a heron"]},
    }
    answer = complete(server, **options, qgpm=True)
    assert answer["choices"][0]["text"] in ("the mill", "a heron")


@pytest.mark.parametrize("qgpm", MODES)
def test_a_closed_stream_frees_its_memory(client: openai.OpenAI, server: Server, qgpm: Any) -> None:
    labels = {
        "mode": {False: "plain", True: "qgpm"}.get(qgpm if isinstance(qgpm, bool) else None, "evidence")
    }
    before = metric(server, "ropeway_requests_total", **labels, outcome="aborted")
    stream = client.chat.completions.create(
        model=MODEL, messages=MESSAGES, max_tokens=3000, n=8, stream=True,  # closed long before its end
        extra_body={"qgpm": qgpm, "ignore_eos": True},
    )  # fmt: skip
    received = [next(stream) for _ in range(3)]
    stream.close()
    wait_until(server, "ropeway_requests_total", before + 1, **labels, outcome="aborted")
    wait_until_idle(server)
    assert record(server, {"id": received[0].id})["outcome"] == "aborted"


@pytest.mark.parametrize("stream", [False, True])
def test_clients_that_leave_during_the_score_pass_free_its_memory(server: Server, stream: bool) -> None:
    """Six prompts of 4,000 tokens in small chunks: when all leave, most have not been scored."""
    wait_until_idle(server)
    aborted = metric(server, "ropeway_requests_total", mode="qgpm", outcome="aborted")
    scored = metric(server, "ropeway_stage_seconds_count", stage="score")
    bodies = [
        {
            "model": MODEL,
            "prompt": LONG,
            "qgpm": True,
            "stream": stream,
            "cache_salt": f"leave {stream} {number}",
        }
        for number in range(6)
    ]

    async def ask_and_leave() -> None:
        async with httpx.AsyncClient(timeout=60) as client:
            asking = [client.post(f"{server.url}/v1/completions", json=body) for body in bodies]
            tasks = [asyncio.create_task(one) for one in asking]
            await asyncio.to_thread(wait_until, server, "vllm:num_requests_running", 1)
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    asyncio.run(ask_and_leave())
    wait_until_idle(server)
    left = metric(server, "ropeway_requests_total", mode="qgpm", outcome="aborted") - aborted
    assert left >= 4
    assert metric(server, "ropeway_stage_seconds_count", stage="score") - scored < left
    assert complete(server, qgpm=True)["usage"]["completion_tokens"] == 4


def _chunks(text: str) -> list[dict[str, Any]]:
    lines = (line.removeprefix("data: ") for line in text.splitlines() if line.startswith("data: "))
    return [json.loads(line) for line in lines if line != "[DONE]"]
