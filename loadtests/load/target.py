"""The server under test: what it is called, what it understands, and what it says of its cache."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Literal, get_args

import httpx
from prometheus_client.parser import text_string_to_metric_families

from tests.support.prose import document

Endpoint = Literal["/v1/chat/completions", "/v1/completions"]

# Every answer has the same length, and each token is seen to arrive; vLLM knows these, others refuse them.
FIXED_LENGTH: Mapping[str, object] = {"ignore_eos": True, "skip_special_tokens": False}
_SAMPLE_SENTENCES = 40
_HITS = "vllm:prefix_cache_hits"
_QUERIES = "vllm:prefix_cache_queries"


class TargetError(RuntimeError):
    """A server that cannot be measured, and why."""


@dataclass(frozen=True, slots=True)
class Target:
    """A server that answered; `window` in tokens, None where it does not say.

    `extras`: what every body carries beside the prompt. `no_fields`: why our fields cannot be used, if so.
    """

    url: str
    model: str
    api_key: str | None
    endpoint: Endpoint
    extras: Mapping[str, object]
    window: int | None
    tokens_per_sentence: float
    no_fields: str | None

    def body(self, text: str, max_tokens: int, **fields: object) -> dict[str, Any]:
        """A greedy request with `text` as its prompt."""
        prompt: dict[str, Any] = (
            {"messages": [{"role": "user", "content": text}]}
            if self.endpoint == "/v1/chat/completions"
            else {"prompt": f"{text}\nAnswer:"}
        )
        return {
            "model": self.model,
            **prompt,
            "max_tokens": max_tokens,
            "temperature": 0,
            **self.extras,
            **fields,
        }

    def refusal(self, client: httpx.Client, body: Mapping[str, Any]) -> str | None:
        """Why the server does not answer `body`, None where it does."""
        try:
            response = client.post(self.url + self.endpoint, json=body)
        except httpx.HTTPError as error:
            raise _silent(self.url, error) from error
        return None if response.is_success else f"{response.status_code}: {_message(response)}"


def find(client: httpx.Client, url: str, model: str | None) -> Target:
    """Ask a server what it is; `client` carries the key. Raises TargetError."""
    url = url.rstrip("/").removesuffix("/v1")
    try:
        return _found(client, url, model)
    except (httpx.HTTPError, httpx.InvalidURL) as error:
        raise _silent(url, error) from error
    except (ValueError, LookupError, TypeError) as error:
        raise TargetError(f"{url} does not answer as an OpenAI server does: {error!r}") from error


def _silent(url: str, error: Exception) -> TargetError:
    return TargetError(f"{url} cannot be reached: {error or type(error).__name__}")


def _found(client: httpx.Client, url: str, model: str | None) -> Target:
    served = _served(client, url, model)
    positional = client.get(f"{url}/v1/positional")
    no_fields = (
        None
        if positional.is_success
        else f"GET /v1/positional answers {positional.status_code}: this server has no such field"
    )
    _, _, key = client.headers.get("Authorization", "").partition(" ")
    refusals = []
    for endpoint in get_args(Endpoint):
        for extras in (FIXED_LENGTH, {}):
            target = Target(
                url, served["id"], key or None, endpoint, extras, served.get("max_model_len"), 0.0, no_fields
            )
            body = target.body(document(_SAMPLE_SENTENCES, seed=0), max_tokens=1)
            response = client.post(url + endpoint, json=body)
            if response.is_success:
                tokens = response.json()["usage"]["prompt_tokens"]
                return replace(target, tokens_per_sentence=tokens / _SAMPLE_SENTENCES)
            refusals.append(f"{endpoint}: {response.status_code}: {_message(response)}")
    raise TargetError(f"{url} answers no prompt. {refusals[0]}")


def _served(client: httpx.Client, url: str, model: str | None) -> Mapping[str, Any]:
    response = client.get(f"{url}/v1/models")
    if not response.is_success:
        raise TargetError(f"GET {url}/v1/models answers {response.status_code}: {_message(response)}")
    models: list[dict[str, Any]] = response.json()["data"]
    for found in models:
        if model in (None, found["id"]):
            return found
    raise TargetError(f"{url} serves {', '.join(found['id'] for found in models) or 'nothing'}, not {model}")


def _message(response: httpx.Response) -> str:
    try:
        return str(response.json()["error"]["message"])
    except (ValueError, KeyError, TypeError):
        return response.text[:200]


@dataclass(frozen=True, slots=True)
class Hits:
    """Tokens that were looked up in the prefix cache so far, and those found there."""

    queries: float
    hits: float

    @staticmethod
    def read(client: httpx.Client, url: str) -> "Hits | None":
        """From vLLM's `/metrics`, None where there is nothing of the kind."""
        response = _told(client, f"{url}/metrics")
        if response is None:
            return None
        found = {_QUERIES: 0.0, _HITS: 0.0}
        seen = False
        for family in text_string_to_metric_families(response.text):
            if family.name in found:
                seen = True
                found[family.name] = sum(
                    sample.value for sample in family.samples if sample.name.endswith("_total")
                )
        return Hits(found[_QUERIES], found[_HITS]) if seen else None

    def rate_since(self, before: "Hits") -> float | None:
        """Hits over lookups between two readings, None where nothing was looked up."""
        looked_up = self.queries - before.queries
        return (self.hits - before.hits) / looked_up if looked_up else None


def cache_bytes(client: httpx.Client, url: str) -> dict[str, dict[str, int]] | None:
    """By pool of `GET /v1/cache`: bytes in all, and those that hold keys now; None on other servers."""
    response = _told(client, f"{url}/v1/cache")
    if response is None:
        return None
    pools = {}
    for pool in response.json()["pools"]:
        held = sum(group["bytes_used"] + group["bytes_cached"] for group in pool["groups"])
        pools[str(pool["name"])] = {"total": int(pool["bytes_total"]), "held": int(held)}
    return pools


def _told(client: httpx.Client, address: str) -> httpx.Response | None:
    """What a server says there; None where it says nothing, or is gone since."""
    try:
        response = client.get(address)
    except httpx.HTTPError:
        return None
    return response if response.is_success else None
