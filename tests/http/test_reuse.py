"""What later questions on one document cost, on the default model."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from server.child import Server, running_server
from tests.support.prose import document
from tests.support.tiny import TINY

pytestmark = [pytest.mark.long, pytest.mark.timeout(3600)]

LENGTH = 6000
QUESTIONS = [f"Question: What was said of the harbour on day {day}, and by whom?" for day in range(10)]


@pytest.fixture(scope="module", params=[32, 128])
def served(request: pytest.FixtureRequest, default_model_path: Path) -> Iterator[tuple[Server, int]]:
    """The default model at a block size; 128 is vLLM's own on the CPU."""
    arguments = [
        *(str(default_model_path), *TINY, "--dtype", "bfloat16", "--max-model-len", "8192"),
        *("--kv-cache-memory-bytes", str(1 << 30), "--block-size", str(request.param)),
        *("--served-model-name", "tested", "--enable-prompt-tokens-details"),
    ]
    with running_server(arguments) as server:
        yield server, request.param


def test_later_questions_score_little_but_themselves(served: tuple[Server, int]) -> None:
    server, block = served
    told = _document(server)
    for number, question in enumerate(QUESTIONS):
        response, record = _asked(server, f"{told}\n\n{question}")
        tokens = record["tokens"]
        assert tokens["prompt"] > 0.95 * LENGTH
        computed = tokens["prompt"] - tokens["score_cached"]
        if number:
            asked = tokens["prompt"] - _count(server, f"{told}\n\n")
            assert computed <= asked + 2 * block
            assert computed < 400
        # What the score pass computed, it shares up to the first sentence that matters.
        assert tokens["answer_cached"] >= record["protected_prefix"] // block * block
        assert response["usage"]["prompt_tokens_details"]["cached_tokens"] <= tokens["score_cached"]


def test_the_same_question_again_scores_nothing_and_finds_its_own_blocks(served: tuple[Server, int]) -> None:
    server, block = served
    prompt = f"{_document(server)}\n\n{QUESTIONS[3]}"
    first, _ = _asked(server, prompt)
    again, record = _asked(server, prompt)
    assert record["memo"] is True
    assert record["tokens"]["score_cached"] is None
    assert record["tokens"]["answer_cached"] == (record["tokens"]["prompt"] - 1) // block * block
    assert again["choices"][0]["text"] == first["choices"][0]["text"]


def _document(server: Server) -> str:
    sample = document(100, seed=1)
    return document(round(100 * LENGTH / _count(server, sample)), seed=1)


def _count(server: Server, text: str) -> int:
    return int(server.post("/tokenize", {"model": "tested", "prompt": text}).json()["count"])


def _asked(server: Server, prompt: str) -> tuple[dict[str, Any], dict[str, Any]]:
    body = {"model": "tested", "prompt": prompt, "max_tokens": 4, "temperature": 0}
    body["qgpm"] = {"relevance": "heads"}
    response = server.post("/v1/completions", body, timeout=1200)
    assert response.status_code == 200, response.text
    content = response.json()
    record = server.get(f"/v1/requests/{content['id']}").json()
    assert record["mode"] == "qgpm"
    return content, record
