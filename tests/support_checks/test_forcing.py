"""Stock vLLM with forced tokens against the reference: the tools of every later comparison."""

import random
from pathlib import Path

import pytest
from transformers import AutoTokenizer

from tests.support.checkpoints import Architecture, make
from tests.support.forced import KEY, PROCESSOR
from tests.support.prose import document
from tests.support.reference import Reference

# Raised by torch when vLLM is imported inside the test.
pytestmark = pytest.mark.filterwarnings("ignore:.torch.jit.script_method. is deprecated:DeprecationWarning")


@pytest.mark.parametrize("architecture", ["llama", "qwen3", "granite", "gemma3"])
def test_stock_vllm_reports_the_reference_log_probabilities(
    architecture: Architecture, tmp_path: Path
) -> None:
    from vllm import LLM, SamplingParams

    make(architecture, tmp_path)
    tokenizer = AutoTokenizer.from_pretrained(tmp_path)
    generator = random.Random(0)
    text = tokenizer(document(150, seed=2)).input_ids
    lengths = [900, 500, 200, *range(60, 84, 2)]
    prompts = [text[17 * index :][:length] for index, length in enumerate(lengths)]
    forced = [[generator.randrange(3, len(tokenizer)) for _ in range(24)] for _ in prompts]
    samplings = [
        SamplingParams(
            n=2,
            temperature=1.0,
            max_tokens=len(tokens),
            ignore_eos=True,
            logprobs=0,
            extra_args={KEY: tokens if index else ",".join(map(str, tokens))},
        )
        for index, tokens in enumerate(forced)
    ]
    engine = LLM(
        str(tmp_path),
        dtype="float32",
        enforce_eager=True,
        max_model_len=1024,
        # Chunks, and too little memory for all places: requests join late, move, leave and are preempted.
        max_num_batched_tokens=64,
        max_num_seqs=16,
        block_size=32,
        num_gpu_blocks_override=36,
        logits_processors=[PROCESSOR],
        disable_log_stats=False,
    )
    try:
        answers = engine.generate(
            [{"prompt_token_ids": prompt} for prompt in prompts], samplings, use_tqdm=False
        )
        preemptions = [metric for metric in engine.get_metrics() if metric.name == "vllm:num_preemptions"]
    finally:
        engine.llm_engine.engine_core.shutdown()
    assert preemptions[0].value > 0
    reference = Reference(tmp_path)
    for prompt, tokens, answer in zip(prompts, forced, answers, strict=True):
        expected = reference.forced_logprobs(prompt, tokens)
        assert len(answer.outputs) == 2
        for output in answer.outputs:
            assert list(output.token_ids) == tokens
            steps = zip(tokens, output.logprobs, strict=True)
            assert [step[token].logprob for token, step in steps] == pytest.approx(expected, abs=1e-3)
