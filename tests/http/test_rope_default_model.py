"""The policy `auto` on the default model: a short prompt beside one beyond the native window."""

import json
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import pytest

from server.child import running_server
from tests.http.fidelity import TOLERANCE, Model, Prompt, Setup, Target, largest_difference
from tests.support.reference import Reference

SHORT, LONG = 100, 12_000
YARN = {"rope_type": "yarn", "factor": 2.0}
RULE = {**YARN, "rope_theta": 100_000.0, "original_max_position_embeddings": 8192}


@pytest.mark.long
@pytest.mark.timeout(3600)
def test_a_short_prompt_is_stock_beside_a_long_one_under_yarn(models: Callable[[str], Model]) -> None:
    """vllm#8793: static YaRN hurts short prompts."""
    model, setup = models("default"), Setup("default", 2048, 128)
    short, long = (Prompt.completion(model.tokenizer, length, seed=length) for length in (SHORT, LONG))
    forced = model.forced(1)
    with running_server([str(model.path), *setup.flags], stock=True) as server:
        stock = Target(server, model, setup).logprobs(short, forced)
    arguments = [
        *(str(model.path), *setup.flags, "--max-model-len", str(LONG + len(forced))),
        *("--kv-cache-memory-bytes", str(1 << 30)),
        *("--rope-policy", "auto", "--rope-scaling", json.dumps(YARN)),
    ]
    with running_server(arguments) as server:
        target = Target(server, model, setup)
        alone = target.logprobs(short, forced, salt="alone")
        with ThreadPoolExecutor() as pool:
            far = pool.submit(target.logprobs, long, forced)
            near = pool.submit(target.logprobs, short, forced)
            found, beside = far.result(), near.result()
    assert alone == stock
    assert beside == pytest.approx(stock, abs=TOLERANCE)
    expected = Reference(model.path, RULE).forced_logprobs(long.tokens, forced)
    print(f"{LONG} tokens against transformers: {largest_difference(found, expected):.2g}")
    assert found == pytest.approx(expected, abs=TOLERANCE)
