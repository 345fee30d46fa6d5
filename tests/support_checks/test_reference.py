"""The oracle itself: equations on paper, and forwards that must agree with transformers' own."""

import math
import random
from dataclasses import dataclass, replace
from pathlib import Path

import pytest
import torch
from transformers import AutoModelForCausalLM, AutoTokenizer

from tests.support.checkpoints import ROTATING, Architecture, make
from tests.support.prose import document
from tests.support.reference import Modulated, Reference, Span


@dataclass(frozen=True)
class Config:
    k_broad: int = 2
    t_broad: float = 0.3
    k_sharp: int = 1
    t_sharp: float = 0.1
    score_low: float = 0.3
    stride_floor: float = 0.1
    anchor_ratio: float = 0.2
    gate_width: float = 0.5


LENGTH = 160
SPANS: list[Span] = [(start, start + 10) for start in range(10, 140, 10)]
EVIDENCE_IN_THE_MIDDLE = [2.0 if index == 6 else 0.0 for index in range(len(SPANS))]
MODULATED = Modulated(EVIDENCE_IN_THE_MIDDLE, SPANS, LENGTH, Config())


def prompt_and_forced(folder: Path) -> tuple[list[int], list[int]]:
    tokenizer = AutoTokenizer.from_pretrained(folder)
    generator = random.Random(0)
    return tokenizer(document(20, seed=1)).input_ids[:LENGTH], [
        generator.randrange(3, len(tokenizer)) for _ in range(16)
    ]


def largest_difference(left: list[float], right: list[float]) -> float:
    return max(abs(a - b) for a, b in zip(left, right, strict=True))


@pytest.fixture(scope="module")
def llama(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make("llama", tmp_path_factory.mktemp("llama"))


def test_hard_cut_on_paper() -> None:
    # Two planes with wavelengths 10 and 1000, L_a = 100: the boundary is halfway, m* = 0.5.
    frequencies = torch.tensor([2 * math.pi / 10, 2 * math.pi / 1000], dtype=torch.float64)
    config = Config(k_sharp=1, t_sharp=0, score_low=0.2, stride_floor=0.1, anchor_ratio=10, gate_width=0.5)
    modulated = Modulated([1, 5, 0, 5], [(1, 3), (3, 5), (5, 7), (7, 8)], 10, config)
    assert modulated.scores("sharp") == pytest.approx([0.2, 1, 0.2, 0.2])
    assert modulated.token_scores("sharp", 10) == pytest.approx([1, 1, 1, 1, 1, 0.2, 0.2, 0.2, 1, 1])
    fast, slow = 1 / (1 + math.e), 1 / (1 + math.exp(-1))
    slowed = [0.2 + 0.8 * fast, 0.2 + 0.8 * slow]
    expected = [[4 + min(j, 3) * step + max(j - 3, 0) for step in slowed] for j in range(6)]
    positions = modulated.positions("sharp", 10, frequencies)
    assert torch.allclose(positions[4:], torch.tensor(expected, dtype=torch.float64), atol=1e-12)
    assert positions[:5].T.tolist() == [[0, 1, 2, 3, 4]] * 2


def test_soft_scores_reach_both_ends() -> None:
    scores = Modulated([0, 3, 1, 2], [(0, 1), (1, 2), (2, 3), (3, 4)], 4, Config()).scores("broad")
    raw = [1 / (1 + math.exp(-(1.5 - rank) / 0.3)) for rank in (3, 0, 2, 1)]
    spread = raw[1] - raw[0]
    assert scores == pytest.approx([0.3 + 0.7 * (f - raw[0]) / spread for f in raw])
    assert (min(scores), max(scores)) == (pytest.approx(0.3), pytest.approx(1))


@pytest.mark.parametrize("architecture", ROTATING)
def test_positions_matter_and_standard_ones_change_nothing(
    architecture: Architecture, tmp_path: Path
) -> None:
    prompt, forced = prompt_and_forced(make(architecture, tmp_path))
    reference = Reference(tmp_path)
    plain = reference.forced_logprobs(prompt, forced)
    everything = replace(MODULATED, config=Config(k_broad=99, t_broad=0, k_sharp=99, t_sharp=0))
    assert largest_difference(plain, reference.forced_logprobs(prompt, forced, everything)) < 1e-4
    assert largest_difference(plain, reference.forced_logprobs(prompt, forced, MODULATED)) > 0.1


def test_plain_forward_is_that_of_transformers(llama: Path) -> None:
    prompt, forced = prompt_and_forced(llama)
    model = AutoModelForCausalLM.from_pretrained(llama, dtype=torch.float32, attn_implementation="eager")
    with torch.inference_mode():
        logprobs = model(torch.tensor([prompt + forced])).logits[0].log_softmax(-1)
    expected = [float(logprobs[len(prompt) - 1 + index, token]) for index, token in enumerate(forced)]
    assert largest_difference(expected, Reference(llama).forced_logprobs(prompt, forced)) < 1e-5


def test_each_half_of_the_layers_follows_its_map(llama: Path) -> None:
    prompt, forced = prompt_and_forced(llama)
    reference = Reference(llama)
    values = [
        reference.forced_logprobs(prompt, forced, replace(MODULATED, config=config))
        for config in (Config(), Config(k_broad=9), Config(k_sharp=4))
    ]
    assert largest_difference(values[0], values[1]) > 0.01
    assert largest_difference(values[0], values[2]) > 0.01


def test_windowed_layers_stay_standard(tmp_path: Path) -> None:
    prompt, forced = prompt_and_forced(make("gemma3", tmp_path, window_pattern=99))
    reference = Reference(tmp_path)
    assert reference.forced_logprobs(prompt, forced) == reference.forced_logprobs(prompt, forced, MODULATED)


def test_decoding_with_a_cache_equals_one_forward(llama: Path) -> None:
    prompt, _ = prompt_and_forced(llama)
    reference = Reference(llama)
    steps = reference.greedy(prompt, 6, MODULATED)
    whole = reference.forced_logprobs(prompt, [step.token for step in steps], MODULATED)
    assert largest_difference([step.logprob for step in steps], whole) < 1e-4
    assert all(step.margin >= 0 for step in steps)


@pytest.mark.parametrize("architecture", ["llama", "qwen3", "gemma3"])
def test_signals_are_the_logits_behind_attention(architecture: Architecture, tmp_path: Path) -> None:
    # With one token a sentence and one query row, differences of signals are those of log attention.
    prompt, _ = prompt_and_forced(make(architecture, tmp_path))
    heads = [(1, 0), (1, 3), (3, 2)]
    spans = [(token, token + 1) for token in range(20, 60)]
    _, signals = Reference(tmp_path).relevance(prompt, heads, [LENGTH - 1], spans)
    model = AutoModelForCausalLM.from_pretrained(tmp_path, dtype=torch.float32, attn_implementation="eager")
    with torch.inference_mode():
        attentions = model(torch.tensor([prompt]), output_attentions=True).attentions
    for column, (layer, head) in enumerate(heads):
        expected = attentions[layer][0, head, -1, 20:60].double().log()
        signal = signals[:, column]
        assert torch.allclose(signal - signal.mean(), expected - expected.mean(), atol=1e-3)


def test_relevance_is_standardised_over_sentences(llama: Path) -> None:
    prompt, _ = prompt_and_forced(llama)
    z, signals = Reference(llama).relevance(prompt, [(1, 0), (2, 1)], [140, 159], SPANS)
    expected = (signals - signals.mean(0)) / signals.var(0, correction=0).sqrt()
    assert z == pytest.approx(expected.mean(1).tolist())
    one_row = [Reference(llama).relevance(prompt, [(1, 0)], [row], SPANS)[1] for row in (140, 159)]
    assert torch.allclose(torch.maximum(*one_row)[:, 0], signals[:, 0], atol=1e-5)


def test_silent_sentences_get_the_minimum_and_flat_heads_count_nothing(llama: Path) -> None:
    prompt, _ = prompt_and_forced(llama)
    reference = Reference(llama)
    _, signals = reference.relevance(prompt, [(1, 0)], [159], SPANS, silent=range(*SPANS[3]))
    assert signals[3, 0] == signals[[0, 1, 2, *range(4, len(SPANS))], 0].min()
    z, _ = reference.relevance(prompt, [(1, 0)], [159], SPANS, silent=range(LENGTH))
    assert z == [0.0] * len(SPANS)
