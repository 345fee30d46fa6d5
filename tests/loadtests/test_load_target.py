from typing import Any

import httpx
import pytest

from loadtests.load.scenarios import SCENARIOS, Writer, understood
from loadtests.load.target import FIXED_LENGTH, Hits, TargetError, cache_bytes, find
from tests.loadtests.known_server import PROMPT_TOKENS, Known, serving


def _left_out(known: Known) -> dict[str, str]:
    with serving(known) as url, httpx.Client() as client:
        writer = Writer(find(client, url, None), "n", tokens=100, max_tokens=4)
        found = {scenario.name: understood(client, writer, scenario)[1] for scenario in SCENARIOS}
        return {name: reason for name, reason in found.items() if reason is not None}


def test_only_the_address_is_needed() -> None:
    with serving(Known(0.0, 0.0)) as url, httpx.Client() as client:
        for address in (url, f"{url}/", f"{url}/v1", f"{url}/v1/"):
            target = find(client, address, None)
            assert (target.url, target.model, target.window) == (url, "known", 8192)
            assert target.endpoint == "/v1/chat/completions"
            assert target.tokens_per_sentence == PROMPT_TOKENS / 40


def test_answers_have_a_fixed_length_where_the_server_knows_how() -> None:
    for refused, extras in (((), FIXED_LENGTH), (("ignore_eos",), {})):
        with serving(Known(0.0, 0.0, refused=refused)) as url, httpx.Client() as client:
            assert find(client, url, None).extras == extras


def test_a_server_without_a_chat_is_asked_for_completions() -> None:
    with serving(Known(0.0, 0.0, refused=("messages",))) as url, httpx.Client() as client:
        target = find(client, url, None)
    assert target.endpoint == "/v1/completions"
    assert "prompt" in target.body("Hello", 4)


def test_a_server_that_answers_nothing_is_refused_with_its_words() -> None:
    with serving(Known(0.0, 0.0, refused=("model",))) as url, httpx.Client() as client:
        with pytest.raises(TargetError, match="model is unknown"):
            find(client, url, None)
        with pytest.raises(TargetError, match="serves known, not other"):
            find(client, url, "other")
    with httpx.Client() as client, pytest.raises(TargetError, match="cannot be reached"):
        find(client, url, None)


@pytest.mark.parametrize("answer", [{"text": "<html>"}, {"json": {}}, {"json": []}, {"json": {"data": [1]}}])
def test_what_is_no_openai_server_is_refused(answer: dict[str, Any]) -> None:
    transport = httpx.MockTransport(lambda request: httpx.Response(200, **answer))
    refused = pytest.raises(TargetError, match="http://h does not answer as an OpenAI server")
    with httpx.Client(transport=transport) as client, refused:
        find(client, "http://h", None)


def test_a_server_that_is_gone_while_it_is_asked_is_refused() -> None:
    with httpx.Client() as client:
        with serving(Known(0.0, 0.0)) as url:
            target = find(client, url, None)
        with pytest.raises(TargetError, match="cannot be reached"):
            target.refusal(client, target.body("Hello", 1))


def test_an_address_that_is_none_is_refused() -> None:
    with httpx.Client() as client, pytest.raises(TargetError, match="cannot be reached"):
        find(client, "http://[::1", None)


def test_other_servers_leave_out_what_needs_our_fields_and_say_why() -> None:
    left_out = _left_out(Known(0.0, 0.0))
    assert set(left_out) == {"qgpm_cold", "qgpm_same_document", "qgpm_evidence", "mixed", "many_profiles"}
    assert all("GET /v1/positional answers 404" in reason for reason in left_out.values())


def test_a_server_that_refuses_one_field_is_asked_the_others() -> None:
    assert _left_out(Known(0.0, 0.0, fields=True)) == {}
    assert _left_out(Known(0.0, 0.0, fields=True, refused=("rope",))) == {
        "many_profiles": "400: rope is unknown"
    }


def test_bytes_of_the_cache_are_read_where_there_are_any() -> None:
    with httpx.Client() as client:
        with serving(Known(0.0, 0.0, fields=True)) as url:
            assert cache_bytes(client, url) == {"kv": {"total": 1000, "held": 120}}
        with serving(Known(0.0, 0.0)) as url:
            assert cache_bytes(client, url) is None


def test_the_hit_rate_of_a_while_is_of_what_was_looked_up_in_it() -> None:
    before = Hits(queries=1000.0, hits=500.0)
    assert Hits(1400.0, 600.0).rate_since(before) == 0.25
    assert before.rate_since(before) is None


def test_hits_are_read_from_metrics_over_all_engines() -> None:
    text = "\n".join(
        f'# TYPE {name}_total counter\n{name}_total{{engine="0"}} {value}\n{name}_total{{engine="1"}} 1'
        for name, value in (("vllm:prefix_cache_queries", 8), ("vllm:prefix_cache_hits", 3))
    )
    answer = httpx.MockTransport(lambda request: httpx.Response(200, text=text + "\n"))
    with httpx.Client(transport=answer) as client:
        assert Hits.read(client, "http://h") == Hits(queries=9.0, hits=4.0)


def test_a_server_without_such_metrics_has_no_hits() -> None:
    with serving(Known(0.0, 0.0)) as url, httpx.Client() as client:
        assert Hits.read(client, url) is None


def test_a_server_that_is_gone_tells_nothing_and_breaks_nothing() -> None:
    with serving(Known(0.0, 0.0, fields=True)) as url:
        pass
    with httpx.Client() as client:
        assert Hits.read(client, url) is None
        assert cache_bytes(client, url) is None
