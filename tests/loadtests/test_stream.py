from typing import Any

import httpx
import pytest

from loadtests.stream import StreamError, Timing, stream
from tests.loadtests.streaming_server import Script, streaming

USAGE = {"prompt_tokens": 7, "completion_tokens": 3, "prompt_tokens_details": {"cached_tokens": 4}}


async def _timing(script: Script, **body: Any) -> Timing:
    with streaming(script) as url:
        async with httpx.AsyncClient(timeout=30) as client:
            return await stream(client, url, {"prompt": "Hello", **body})


async def test_the_first_token_is_the_first_delta_that_holds_text() -> None:
    timing = await _timing(Script([(0.0, ""), (0.3, "Hel"), (0.0, "lo")], USAGE))
    assert timing.first_token >= 0.3
    assert timing.total >= timing.first_token


async def test_what_comes_after_the_first_token_does_not_count_to_it() -> None:
    timing = await _timing(Script([(0.0, "Hel"), (1.0, "lo"), (0.0, "!")], USAGE))
    assert timing.first_token < timing.total - 0.5


async def test_time_per_token_is_the_time_after_the_first_text_by_the_tokens_after_it() -> None:
    timing = await _timing(Script([(0.0, ""), (0.3, "Hel"), (0.6, "lo")], USAGE))
    assert timing.per_token > 0.3
    assert timing.first_token + timing.per_token <= timing.total


async def test_a_delta_of_several_tokens_counts_as_all_of_them() -> None:
    timing = await _timing(Script([(0.0, "Hel"), (0.6, "lo there")], USAGE))
    assert timing.per_token > 0.15
    assert timing.first_token + 2 * timing.per_token <= timing.total


async def test_a_single_token_has_no_time_after_it() -> None:
    timing = await _timing(Script([(0.0, "Hello")], {"prompt_tokens": 7, "completion_tokens": 1}))
    assert timing.per_token == 0.0


async def test_the_servers_counts_are_taken_over() -> None:
    timing = await _timing(Script([(0.0, "Hello")], USAGE))
    assert (timing.prompt_tokens, timing.cached_tokens, timing.output_tokens) == (7, 4, 3)
    assert timing.request_id == "cmpl-1"


async def test_a_server_that_tells_no_details_has_no_cached_tokens() -> None:
    usage = {"prompt_tokens": 7, "completion_tokens": 1, "prompt_tokens_details": None}
    assert (await _timing(Script([(0.0, "Hello")], usage))).cached_tokens == 0


async def test_the_body_is_sent_as_a_stream_with_usage() -> None:
    script = Script([(0.0, "Hello")], USAGE)
    await _timing(script, qgpm=True)
    assert script.bodies == [
        {"prompt": "Hello", "qgpm": True, "stream": True, "stream_options": {"include_usage": True}}
    ]


@pytest.mark.parametrize(
    ("script", "message"),
    [
        (Script([(0.0, "Hello")], None), "without text or usage"),
        (Script([(0.0, "")], USAGE), "without text or usage"),
        (Script([(0.0, "Hello")], USAGE, error={"message": "engine died"}), "engine died"),
        (Script([(0.0, "Hello")], USAGE, status=500), "500"),
    ],
)
async def test_a_stream_that_cannot_be_measured_is_an_error(script: Script, message: str) -> None:
    with pytest.raises(StreamError, match=message):
        await _timing(script)
