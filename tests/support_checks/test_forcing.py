"""Stock vLLM over HTTP with forced tokens against the reference: the tools of every later comparison."""

import os
import random
import re
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from transformers import AutoTokenizer

from cache.extra_args import FORCE_TOKENS
from server.child import running_server
from server.likelihood import force, token_logprobs
from tests.support.checkpoints import Architecture, make
from tests.support.prose import document
from tests.support.reference import Reference
from tests.support.tiny import TINY

# Chunks, and too little memory for all places: requests join late, move, leave and are preempted.
CROWDED = [
    *TINY,
    *("--max-model-len", "960", "--max-num-batched-tokens", "64", "--max-num-seqs", "16"),
    *("--block-size", "32", "--num-gpu-blocks-override", "36"),
]


@pytest.mark.parametrize("architecture", ["llama", "qwen3", "granite", "gemma3"])
def test_stock_vllm_reports_the_reference_log_probabilities(
    architecture: Architecture, tmp_path: Path
) -> None:
    make(architecture, tmp_path)
    tokenizer = AutoTokenizer.from_pretrained(tmp_path)
    generator = random.Random(0)
    text = tokenizer(document(150, seed=2)).input_ids
    lengths = [880, 500, 200, *range(60, 84, 2)]
    prompts = [text[17 * index :][:length] for index, length in enumerate(lengths)]
    forced = [[generator.randrange(3, len(tokenizer)) for _ in range(64)] for _ in prompts]
    bodies: list[dict[str, Any]] = [
        {"model": str(tmp_path), "prompt": prompt, **force(tokens), "n": 2, "temperature": 1, "logprobs": 0}
        for prompt, tokens in zip(prompts, forced, strict=True)
    ]
    bodies[0]["vllm_xargs"] = {FORCE_TOKENS: ",".join(map(str, forced[0]))}
    with running_server([str(tmp_path), *CROWDED], stock=True) as server:
        with ThreadPoolExecutor(len(bodies)) as pool:
            responses = list(pool.map(lambda body: server.post("/v1/completions", body), bodies))
        preemptions = re.search(r"^vllm:num_preemptions_total\S* (\S+)$", server.get("/metrics").text, re.M)
    assert preemptions is not None
    assert float(preemptions[1]) > 0
    reference = Reference(tmp_path)
    for prompt, tokens, response in zip(prompts, forced, responses, strict=True):
        assert response.status_code == 200, response.text
        expected = pytest.approx(reference.forced_logprobs(prompt, tokens), abs=1e-3)
        choices = response.json()["choices"]
        assert [choice["token_ids"] for choice in choices] == [tokens, tokens]
        assert [token_logprobs(choice) for choice in choices] == [expected, expected]


def test_chat_forces_tokens_refuses_nonsense_and_leaves_no_process(tmp_path: Path) -> None:
    forced = [40, 77, 300, 301, 12, 500]
    make("llama", tmp_path)
    messages = [{"role": "user", "content": "Who sold the violin? Nobody knows."}]
    tokenizer = AutoTokenizer.from_pretrained(tmp_path)
    prompt = tokenizer.apply_chat_template(messages, add_generation_prompt=True, return_dict=False)
    with running_server([str(tmp_path), *TINY], stock=True) as server:
        body = {"model": str(tmp_path), "messages": messages, "logprobs": True}
        nonsense = server.post("/v1/chat/completions", {**body, "vllm_xargs": {FORCE_TOKENS: "first"}})
        answer = server.post("/v1/chat/completions", {**body, **force(forced)})
    assert nonsense.status_code == 400
    choice = answer.json()["choices"][0]
    assert choice["token_ids"] == forced
    assert token_logprobs(choice) == pytest.approx(
        Reference(tmp_path).forced_logprobs(prompt, forced), abs=1e-3
    )
    with pytest.raises(ProcessLookupError):
        os.killpg(server.pid, 0)


def test_a_server_that_cannot_start_shows_its_log(tmp_path: Path) -> None:
    command = ["sh", "-c", "echo no such thing; exit 3"]
    with (
        pytest.raises(RuntimeError, match="no such thing"),
        running_server([], command=command, log=tmp_path / "log"),
    ):
        pass
