"""What the tests of this folder ask the shared servers, and what they read from them."""

import time
from typing import Any

import httpx
from prometheus_client.parser import text_string_to_metric_families

from server.child import Server
from tests.support.prose import document
from tests.support.tiny import TINY

MODEL = "tiny"
API_KEY = "key-of-the-tests-7c1f"
ADMIN_KEY = "admin-key-of-the-tests-a90e"
DOCUMENT = document(24, seed=11)
PASSAGE = "a wooden violin"  # in some sentences of the document
QUESTION = "Question: Who hid the lighthouse key?"
PROMPT = f"{DOCUMENT}\n\n{QUESTION}"

BLOCK = 32
# Twice the longest request of the crowded server, and chunks that make prompts wait for each other.
CROWDED_LENGTH = 960
CROWDED_CHUNK = 64
# More than any test asks for but those of limits, which send eight score passes at a time.
CROWDED_LIMITS = {
    "--max-body-bytes": 65_536,
    "--max-document-tokens": 900,
    "--max-sentences": 200,
    "--max-question-tokens": 128,
    "--max-evidence-passages": 8,
    "--max-evidence-characters": 2_000,
    "--max-score-passes": 10,
}
CROWDED_BLOCKS = 2 * CROWDED_LENGTH // BLOCK + 1  # one block is vLLM's own

SHARED = (
    *(*TINY, "--served-model-name", MODEL, "--block-size", str(BLOCK), "--enable-prompt-tokens-details"),
    *("--qgpm-guard", "0"),  # which random models would not pass
)


def post(server: Server, path: str, **fields: Any) -> httpx.Response:
    """POST a body for the servers' model; the crowded server's key goes with every request."""
    body = {"model": MODEL, **fields}
    headers = {"Authorization": f"Bearer {API_KEY}"}
    return httpx.post(server.url + path, json=body, headers=headers, timeout=300)


def complete(server: Server, prompt: Any = PROMPT, **fields: Any) -> dict[str, Any]:
    """The response of a completion that must succeed; four greedy tokens unless told otherwise."""
    defaults = {"max_tokens": 4, "temperature": 0, "ignore_eos": True}
    return _successful(post(server, "/v1/completions", prompt=prompt, **(defaults | fields)))


def chat(server: Server, messages: Any = None, **fields: Any) -> dict[str, Any]:
    """The response of a chat that must succeed; one user message with document and question by default."""
    told = messages or [{"role": "user", "content": PROMPT}]
    defaults = {"max_tokens": 4, "temperature": 0, "ignore_eos": True}
    return _successful(post(server, "/v1/chat/completions", messages=told, **(defaults | fields)))


def relevance(server: Server, **fields: Any) -> dict[str, Any]:
    """The score pass alone of a body that must be accepted."""
    return _successful(post(server, "/v1/qgpm/relevance", **fields))


def record(server: Server, response: dict[str, Any]) -> dict[str, Any]:
    """What the server says that it did for a response."""
    headers = {"Authorization": f"Bearer {API_KEY}"}
    return _successful(httpx.get(f"{server.url}/v1/requests/{response['id']}", headers=headers))


def metric(server: Server, name: str, **labels: str) -> float:
    """The sum of all samples of a metric that have the labels."""
    families = text_string_to_metric_families(server.get("/metrics").text)
    samples = (sample for family in families for sample in family.samples if sample.name == name)
    return sum(sample.value for sample in samples if labels.items() <= sample.labels.items())


def wait_until_idle(server: Server, seconds: float = 60) -> None:
    """Return once nothing runs or waits and no block is in use; AssertionError where that does not come."""
    names = ("vllm:num_requests_running", "vllm:num_requests_waiting", "vllm:kv_cache_usage_perc")
    deadline = time.monotonic() + seconds
    while any(state := {name: metric(server, name) for name in names}.values()):
        if time.monotonic() > deadline:
            raise AssertionError(f"not idle after {seconds} s: {state}")
        time.sleep(0.05)


def wait_until(server: Server, name: str, value: float, seconds: float = 60, **labels: str) -> None:
    """Return once a metric is at least `value`; AssertionError where it stays below."""
    deadline = time.monotonic() + seconds
    while (found := metric(server, name, **labels)) < value:
        if time.monotonic() > deadline:
            raise AssertionError(f"{name}{labels} is {found}, not {value}, after {seconds} s")
        time.sleep(0.005)


def _successful(response: httpx.Response) -> dict[str, Any]:
    assert response.status_code == 200, response.text
    content: dict[str, Any] = response.json()
    return content
