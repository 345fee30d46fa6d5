"""Served log-probabilities and relevance against the reference, and plain requests against stock vLLM."""

import itertools
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, get_args

import pytest

from server.child import running_server
from server.compiler import can_compile
from server.likelihood import token_logprobs
from tests.http.fidelity import (
    SETTINGS,
    TOLERANCE,
    Model,
    Place,
    Prompt,
    Setup,
    Target,
    largest_difference,
)

LENGTHS = (60, 500, 3000)
PLACES: tuple[Place, ...] = get_args(Place)
BATCH_LENGTHS = (70, 900, 450, 300, 60, 600)

LLAMA_64, LLAMA_2048 = Setup("llama", 64, 32), Setup("llama", 2048, 128)
GEMMA_64 = Setup("gemma3", 64, 32)
SETUPS = (
    LLAMA_64,
    LLAMA_2048,
    GEMMA_64,
    Setup("gemma3", 2048, 128),
    *(Setup(name, chunk, block) for name in ("qwen3", "granite") for chunk, block in ((64, 32), (2048, 128))),
    *(Setup(name, 64, 32) for name in ("phi3", "mistral", "qwen2")),
    Setup("default", 64, 32),
    Setup("default", 2048, 128),
)

LONG = (pytest.mark.long, pytest.mark.timeout(3600))


def served(*short: Setup) -> pytest.MarkDecorator:
    """Run under every set-up, of which only `short` ones belong to the quick tests."""
    params = [pytest.param(setup, id=str(setup), marks=() if setup in short else LONG) for setup in SETUPS]
    return pytest.mark.parametrize("target", params, indirect=True)


def say(what: str, differences: Iterable[float]) -> None:
    """Print a largest difference; `-rP` shows it."""
    print(f"{what}: {max(differences):.2g}")


@served(LLAMA_64, LLAMA_2048, GEMMA_64)
@pytest.mark.parametrize("length", LENGTHS)
def test_evidence_moves_tokens_as_in_the_reference(target: Target, length: int) -> None:
    prompt = Prompt.completion(target.model.tokenizer, length, seed=length)
    assert len(prompt.tokens) == length
    moved, differences = [], []
    for seed, place in enumerate(PLACES):
        forced = target.model.forced(seed)
        evidence = prompt.evidence(place)
        modulated = prompt.moved_by(evidence)
        expected = target.model.logprobs(prompt, forced, modulated)
        found = target.logprobs(prompt, forced, {"evidence": evidence, **SETTINGS})
        differences.append(largest_difference(found, expected))
        moved.append(largest_difference(expected, target.model.logprobs(prompt, forced)))
    say(f"{target.setup}, {length} tokens, modulated against the reference", differences)
    print(f"moved by {moved}")
    assert max(differences) < TOLERANCE
    # With the evidence at the end of a short prompt, little stands elsewhere than in a plain one.
    assert min(moved) > 10 * TOLERANCE
    assert max(moved) > 0.1


@served(LLAMA_64)
@pytest.mark.parametrize("length", [95, 96, 97, 127, 128, 129])
def test_prompts_that_end_around_a_block_border_are_moved(target: Target, length: int) -> None:
    check_moved(target, Prompt.completion(target.model.tokenizer, length, seed=length))


@served(LLAMA_64, GEMMA_64)
def test_a_last_chunk_of_one_token_is_moved(target: Target) -> None:
    length = target.setup.chunk * (7 if target.setup.chunk == 64 else 1) + 1
    prompt = Prompt.completion(target.model.tokenizer, length, seed=7)
    check_moved(target, prompt)
    check_relevance(target, Prompt.completion(target.model.tokenizer, length, seed=8))


@served(LLAMA_64, GEMMA_64)
def test_a_chat_is_moved_as_in_the_reference(target: Target) -> None:
    check_moved(target, Prompt.chat(target.model.tokenizer, 30, seed=9))


def check_moved(target: Target, prompt: Prompt) -> None:
    forced, evidence = target.model.forced(5), prompt.evidence("middle")
    response = target.answer(prompt, forced, {"evidence": evidence, **SETTINGS})
    assert response["usage"]["prompt_tokens"] == len(prompt.tokens)
    assert target.record(response)["mode"] == "evidence"
    expected = target.model.logprobs(prompt, forced, prompt.moved_by(evidence))
    assert logprobs_of(response) == pytest.approx(expected, abs=TOLERANCE)
    assert largest_difference(expected, target.model.logprobs(prompt, forced)) > 0.1


@served(LLAMA_64)
def test_plain_requests_are_stock_bit_for_bit(target: Target) -> None:
    model = target.model
    cold = [
        Prompt.completion(model.tokenizer, length, seed=100 + length)
        for length in (60, 500, target.setup.chunk + 1, 3000)
    ]
    asked = [*cold, Prompt.chat(model.tokenizer, 30, seed=101), *cold]
    batch = [Prompt.completion(model.tokenizer, length, seed=10_000 + length) for length in BATCH_LENGTHS]
    forced = model.forced(11)
    with running_server([str(model.path), *target.setup.flags], stock=True) as server:
        stock = Target(server, model, target.setup)
        expected = [stock.logprobs(prompt, forced) for prompt in asked]
        alone = [stock.logprobs(prompt, forced, salt="alone") for prompt in batch]
        with ThreadPoolExecutor(len(batch)) as pool:
            batched = list(pool.map(lambda prompt: stock.logprobs(prompt, forced, salt="batched"), batch))
    found = [target.logprobs(prompt, forced) for prompt in asked]
    say(f"{target.setup}, stock, cold against warm", map(largest_difference, expected, expected[-4:]))
    say(f"{target.setup}, stock, alone against batched", map(largest_difference, alone, batched))
    assert found == expected
    references = [model.logprobs(prompt, forced) for prompt in asked]
    say(f"{target.setup}, plain against the reference", map(largest_difference, found, references))
    assert [pytest.approx(reference, abs=TOLERANCE) for reference in references] == found


@served(LLAMA_64, GEMMA_64)
def test_plain_and_modulated_requests_of_one_batch_keep_apart(target: Target) -> None:
    prompts = [
        Prompt.completion(target.model.tokenizer, length, seed=20_000 + length) for length in BATCH_LENGTHS
    ]
    evidence = [prompt.evidence(place) for prompt, place in zip(prompts, itertools.cycle(PLACES))]
    forced = [target.model.forced(seed) for seed in range(len(prompts))]
    asks: list[Callable[[], list[float]]] = []
    expected = []
    for index, prompt in enumerate(prompts):
        qgpm = {"evidence": evidence[index], **SETTINGS}
        asks += [
            lambda prompt=prompt, index=index: target.logprobs(prompt, forced[index]),  # type: ignore[misc]
            lambda prompt=prompt, index=index, qgpm=qgpm: target.logprobs(prompt, forced[index], qgpm),  # type: ignore[misc]
        ]
        expected += [
            target.model.logprobs(prompt, forced[index]),
            target.model.logprobs(prompt, forced[index], prompt.moved_by(evidence[index])),
        ]
    with ThreadPoolExecutor(len(asks)) as pool:
        found = list(pool.map(lambda ask: ask(), asks))
    differences = list(map(largest_difference, found, expected))
    say(f"{target.setup}, plain in one batch with modulated", differences[::2])
    say(f"{target.setup}, modulated in one batch with plain", differences[1::2])
    assert max(differences) < TOLERANCE


@served(LLAMA_64, LLAMA_2048, GEMMA_64)
@pytest.mark.parametrize("length", LENGTHS)
def test_relevance_is_the_references_cold_and_warm(target: Target, length: int) -> None:
    check_relevance(target, Prompt.completion(target.model.tokenizer, length, seed=400 + length))


@served(LLAMA_64, GEMMA_64)
def test_the_relevance_of_a_chat_is_the_references(target: Target) -> None:
    check_relevance(target, Prompt.chat(target.model.tokenizer, 30, seed=402))


def check_relevance(target: Target, prompt: Prompt) -> None:
    expected, _ = target.model.reference.relevance(
        prompt.tokens, target.model.heads, prompt.query_rows, prompt.spans, prompt.silent
    )
    answers = [target.relevance(prompt) for _ in range(3)]
    # Windowed layers keep what stands before the first query row only once a second request asked for it;
    # the block that holds that row is always computed again.
    block = target.setup.block
    assert answers[0]["tokens"] == {"prompt": len(prompt.tokens), "cached": 0}
    assert answers[2]["tokens"]["cached"] == prompt.query_rows[0] // block * block
    for name, answer in zip(("cold", "second", "warm"), answers, strict=True):
        sentences = answer["sentences"]
        assert [(sentence["start"], sentence["end"]) for sentence in sentences] == prompt.spans
        assert [(sentence["start_char"], sentence["end_char"]) for sentence in sentences] == prompt.sentences
        assert answer["query_rows"] == prompt.query_rows
        found = [sentence["z"] for sentence in sentences]
        say(f"{target.setup}, {len(prompt.tokens)} tokens, z {name}", [largest_difference(found, expected)])
        assert found == pytest.approx(expected, abs=TOLERANCE)


@served(LLAMA_64, LLAMA_2048, GEMMA_64)
@pytest.mark.parametrize("length", [60, 500, 3000])
def test_both_passes_together_are_the_reference_with_the_ranks_found(target: Target, length: int) -> None:
    prompt = Prompt.completion(target.model.tokenizer, length, seed=500 + length)
    forced = target.model.forced(12)
    response = target.answer(prompt, forced, SETTINGS)
    record = target.record(response)
    assert (record["mode"], record["outcome"]) == ("qgpm", "success")
    assert record["sentences"] == len(prompt.spans)
    # Behind the ten best, scores are the lowest to the last bit that float32 rows show.
    ranks = {(row["start"], row["end"]): row["rank"] for row in record["top"]}
    relevance = [-float(ranks.get(span, len(prompt.spans))) for span in prompt.spans]
    expected = target.model.logprobs(prompt, forced, prompt.modulated(relevance))
    found = logprobs_of(response)
    say(f"{target.setup}, {length} tokens, both passes", [largest_difference(found, expected)])
    assert found == pytest.approx(expected, abs=TOLERANCE)
    reference, _ = target.model.reference.relevance(
        prompt.tokens, target.model.heads, prompt.query_rows, prompt.spans, prompt.silent
    )
    for row in record["top"]:
        assert row["z"] == pytest.approx(reference[prompt.spans.index((row["start"], row["end"]))], abs=1e-3)


@pytest.mark.long
@pytest.mark.timeout(3600)
@pytest.mark.skipif(not can_compile()[0], reason="needs a C++ compiler")
@pytest.mark.parametrize("stock_first", [True, False], ids=["stock-first", "ours-first"])
def test_one_compile_cache_serves_stock_and_ours(
    stock_first: bool, models: Callable[[str], Model], tmp_path: Path
) -> None:
    model = models("llama")
    prompt = Prompt.completion(model.tokenizer, 500, seed=600)
    forced, evidence = model.forced(13), prompt.evidence("middle")
    plain = pytest.approx(model.logprobs(prompt, forced), abs=TOLERANCE)
    moved = pytest.approx(model.logprobs(prompt, forced, prompt.moved_by(evidence)), abs=TOLERANCE)
    arguments = [str(model.path), *LLAMA_64.flags, "--no-enforce-eager"]
    for starts, stock in enumerate((stock_first, not stock_first), 1):
        with running_server(
            arguments, {"VLLM_CACHE_ROOT": str(tmp_path)}, stock=stock, ready_within=1200
        ) as server:
            target = Target(server, model, LLAMA_64)
            assert target.logprobs(prompt, forced) == plain
            if not stock:
                assert target.logprobs(prompt, forced, {"evidence": evidence, **SETTINGS}) == moved
        # Each compiled its own graph, and neither took the other's.
        assert len(list(tmp_path.glob("**/torch_aot_compile/*/rank_0_0/model"))) == starts


def logprobs_of(response: dict[str, Any]) -> list[float]:
    """The log-probabilities of the tokens of a response with one choice."""
    return token_logprobs(response["choices"][0])
