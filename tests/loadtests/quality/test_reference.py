"""Warped models against transformers' own, and against their methods written over whole prompts."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
import torch
from transformers import AutoModelForCausalLM

from loadtests.quality.reference import Reference
from loadtests.quality.warping import BASELINES, Method, UnwarpableError
from positional.warps import Plain, Rerope, Scaled, SelfExtend, String, Warp, WarpError
from server.likelihood import Gold, answer_ids
from tests.support.checkpoints import Architecture, make
from tests.support.prose import document

YARN = {"rope_type": "yarn", "rope_theta": 10_000.0, "factor": 4.0, "original_max_position_embeddings": 2048}
METHODS: tuple[Method, ...] = ("plain", *BASELINES)
Messages = Sequence[Mapping[str, str]]


def chat(sentences: int, seed: int = 1) -> Messages:
    text = f"{document(sentences, seed=seed)}\n\nQuestion: What is the harbour for?"
    return [{"role": "user", "content": text}]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make("llama", tmp_path_factory.mktemp("llama"))


@pytest.fixture(scope="module")
def reference(folder: Path) -> Reference:
    return Reference.load(folder)


def own_answer(
    folder: Path, reference: Reference, messages: Messages, gold: Sequence[int]
) -> tuple[float, str]:
    """Log-probability and greedy answer of 8 tokens by transformers, without anything of ours."""
    model: Any = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32)
    tokenizer = reference.tokenizer
    ids = tokenizer.apply_chat_template(messages, add_generation_prompt=True, return_tensors="pt")[
        "input_ids"
    ]
    with torch.inference_mode():
        logits = model(torch.cat((ids, torch.tensor([list(gold)])), dim=1)).logits[0, ids.shape[1] - 1 : -1]
        answer = model.generate(ids, max_new_tokens=8, do_sample=False)[0, ids.shape[1] :]
    logprob = logits.log_softmax(-1).gather(1, torch.tensor(gold)[:, None]).sum()
    return float(logprob), tokenizer.decode(answer, skip_special_tokens=True)


def gold_of(reference: Reference, messages: Messages, answer: str = "a quiet harbour") -> tuple[int, ...]:
    return tuple(answer_ids(reference.tokenizer, messages, answer))


@pytest.mark.parametrize(
    ("architecture", "rope"), [("llama", None), ("llama", YARN), ("qwen3", None), ("granite", None)]
)
def test_plain_is_transformers_own_model(
    architecture: Architecture, rope: Mapping[str, Any] | None, tmp_path: Path
) -> None:
    folder = make(architecture, tmp_path, rope_parameters=rope)
    reference, messages = Reference.load(folder), chat(20)
    gold = gold_of(reference, messages)
    logprob, text = own_answer(folder, reference, messages, gold)
    answer = reference.observe(messages, [Gold(gold, 0)], "plain", max_tokens=8)
    assert answer.logprob == pytest.approx(logprob, abs=1e-3)
    assert answer.text == text


@pytest.mark.parametrize("method", BASELINES)
def test_a_method_changes_the_answers_likelihood(reference: Reference, method: Method) -> None:
    messages = chat(40)
    gold = gold_of(reference, messages)
    plain, warped = (
        reference.observe(messages, [Gold(gold, 0)], name, max_tokens=1) for name in ("plain", method)
    )
    assert plain.prompt_tokens == warped.prompt_tokens > 500
    assert abs(plain.logprob - warped.logprob) > 0.05


@pytest.mark.parametrize("method", METHODS)
def test_the_greedy_answer_is_likelier_than_any_other_first_token(
    reference: Reference, method: Method
) -> None:
    messages = chat(40)
    text = reference.observe(messages, [Gold((5,), 0)], method, max_tokens=1).text
    [best] = reference.tokenizer(text, add_special_tokens=False).input_ids
    likeliest = reference.observe(messages, [Gold((best,), 0)], method, max_tokens=1).logprob
    assert all(
        reference.observe(messages, [Gold((token,), 0)], method, max_tokens=1).logprob < likeliest
        for token in (5, 90)
    )


@pytest.mark.parametrize("method", METHODS)
def test_an_answer_behind_a_cache_is_the_answer_in_one_forward(reference: Reference, method: Method) -> None:
    gold = gold_of(reference, chat(40))
    answer = reference.observe(chat(40), [Gold(gold, 0)], method, max_tokens=1)
    ids = reference._prompt_ids(chat(40))
    warping = reference._warping(method, len(ids), len(ids) + len(gold))
    with torch.inference_mode():
        reference._logits(ids, warping, None, keep=1)
        logits = reference._logits([*ids, *gold], warping, None, keep=len(gold) + 1)[:-1]
    logprob = logits.log_softmax(-1).gather(1, torch.tensor(gold)[:, None]).sum()
    assert answer.logprob == pytest.approx(float(logprob), abs=1e-3)


def test_several_answers_are_each_measured_behind_the_prompt(reference: Reference) -> None:
    golds = [Gold((7, 8, 9), 0), Gold((7, 5), 1)]
    one, other = (reference.observe(chat(40), [gold], "string", max_tokens=1).logprob for gold in golds)
    assert reference.observe(chat(40), golds, "string", max_tokens=1).logprob == pytest.approx(
        (one + other) / 2
    )


def test_ms_poe_orders_heads_by_what_the_prompts_last_token_reads(folder: Path, reference: Reference) -> None:
    ids = reference._prompt_ids(chat(40))
    warping = reference._warping("ms_poe", len(ids), len(ids))
    model: Any = AutoModelForCausalLM.from_pretrained(
        folder, dtype=torch.float32, attn_implementation="eager"
    )
    with torch.inference_mode():
        reference._logits(ids, warping, None, keep=1)
        read = model(torch.tensor([ids]), output_attentions=True).attentions[0][0, :, -1]
    nothing = torch.empty(0)  # its layers are settled
    shares = [float((row >= 3 * row.mean()).float().mean()) for row in read]
    ratios = [warp.ratio for warp in warping.warps(0, nothing, nothing, 1.0) if isinstance(warp, Scaled)]
    assert len(set(shares)) == len(shares)
    assert sorted(range(4), key=lambda head: ratios[head]) == sorted(range(4), key=lambda head: -shares[head])
    assert sorted(ratios) == pytest.approx([1.2, 1.4, 1.6, 1.8])


def test_hyperparameters_follow_the_prompt_and_the_window(reference: Reference) -> None:
    query, key = torch.zeros(1, 4, 32), torch.zeros(1, 2, 32)

    def warps(method: Method, length: int) -> set[Warp]:
        return set(reference._warping(method, length, length).warps(0, query, key, 1.0))

    assert warps("plain", 900) == {Plain()}
    assert warps("string", 900) == {String(shift=300, window=128)}
    assert warps("self_extend", 900) == {SelfExtend(group=2, window=225)}
    assert warps("self_extend", 20_000) == {SelfExtend(group=3, window=1024)}
    assert warps("rerope", 900) == {Rerope(225)}
    assert warps("leaky_rerope", 20_000) == {Rerope(1024, leak=1 / 3)}


@pytest.mark.parametrize("method", BASELINES)
def test_nothing_of_a_prompt_is_left_for_the_next(reference: Reference, method: Method) -> None:
    """Ms-PoE's own code keeps the heads' order on the module."""
    gold = gold_of(reference, chat(40))
    first = reference.observe(chat(40), [Gold(gold, 0)], method, max_tokens=2)
    reference.observe(chat(50, seed=2), [Gold(gold, 0)], method, max_tokens=2)
    assert reference.observe(chat(40), [Gold(gold, 0)], method, max_tokens=2) == first


def test_a_greedy_answer_ends_where_the_model_ends_it(folder: Path) -> None:
    reference, messages = Reference.load(folder), chat(40)
    text = reference.observe(messages, [Gold((5,), 0)], "string", max_tokens=6).text
    tokens = reference.tokenizer(text, add_special_tokens=False).input_ids
    reference.model.generation_config.eos_token_id = [tokens[0]]
    assert reference.observe(messages, [Gold((5,), 0)], "string", max_tokens=6).text == ""


def test_a_prompt_too_short_for_string_is_refused(reference: Reference) -> None:
    with pytest.raises(WarpError, match="shift: must exceed the window of 128 tokens"):
        reference.observe(chat(2), [Gold((5,), 0)], "string")


@pytest.mark.parametrize("architecture", ["gemma3", "cohere2", "exaone4", "glm4"])
def test_models_with_other_layers_are_refused(architecture: Architecture, tmp_path: Path) -> None:
    with pytest.raises(UnwarpableError, match="The model cannot be warped"):
        Reference.load(make(architecture, tmp_path))
