from pathlib import Path

import pytest
import torch
from transformers import SmolLM3Config, SmolLM3ForCausalLM

from cache import head_profile
from server import calibrate, samples
from server.calibrate import CalibrationError, held_out_half, reciprocal_rank, select
from server.head_reader import HeadReaderError, Observation, Reader
from server.locate import Source, locate
from server.offsets import tokenized
from tests.support import checkpoints
from tests.support.reference import Reference


def ranks(*signals: float, evidence: tuple[int, ...]) -> float:
    return reciprocal_rank(torch.tensor(signals)[:, None], evidence).item()


def test_the_evidence_is_ranked_among_all_sentences() -> None:
    assert ranks(3.0, 1.0, 2.0, evidence=(0,)) == 1
    assert ranks(3.0, 1.0, 2.0, evidence=(2,)) == 1 / 2
    assert ranks(3.0, 1.0, 2.0, evidence=(1,)) == 1 / 3


def test_ties_count_at_the_expected_rank() -> None:
    assert ranks(1.0, 1.0, evidence=(0,)) == 1 / 1.5
    assert ranks(5.0, 1.0, 1.0, 1.0, evidence=(2,)) == 1 / 3
    assert ranks(0.0, 0.0, 0.0, 0.0, 0.0, evidence=(4,)) == 1 / 3


def test_of_several_evidence_sentences_the_best_counts() -> None:
    assert ranks(3.0, 1.0, 2.0, evidence=(1, 2)) == 1 / 2
    assert ranks(3.0, 1.0, 3.0, 3.0, evidence=(0, 2)) == pytest.approx(1 / (1 + 1 / 3))


def test_a_sentence_without_a_signal_is_ranked_last() -> None:
    assert ranks(-torch.inf, 1.0, 2.0, evidence=(0,)) == 1 / 3


def test_each_head_has_its_own_rank() -> None:
    signals = torch.tensor([[1.0, 2.0], [2.0, 1.0]])
    assert reciprocal_rank(signals, (0,)).tolist() == [0.5, 1.0]


@pytest.mark.parametrize("lengths", [1, 2, 3, 4])
def test_both_halves_hold_every_kind_and_length_alike(lengths: int) -> None:
    kinds = len(samples.CALIBRATION_KINDS)
    count = 4 * kinds * lengths
    held = held_out_half(count, lengths)
    cells = [(index % kinds, index // kinds % lengths) for index in range(count)]
    for half in (True, False):
        inside = [cell for cell, is_held in zip(cells, held, strict=True) if is_held is half]
        assert {inside.count(cell) for cell in cells} == {2}


@pytest.mark.parametrize("lengths", [1, 3, 4])
def test_the_fewest_samples_fill_both_halves(lengths: int) -> None:
    assert set(held_out_half(calibrate.MIN_SAMPLES, lengths)) == {True, False}


def observations(*columns: list[float], count: int = 8) -> list[Observation]:
    return [Observation(torch.tensor(columns).double().T, (0,)) for _ in range(count)]


HALVES = [False, True] * 4
FOUND, LOST, FLAT = [2.0, 1.0, 0.0], [0.0, 1.0, 2.0], [1.0, 1.0, 1.0]


def test_the_head_that_ranks_evidence_first_is_chosen() -> None:
    selection = select(observations(LOST, FOUND, FLAT), [(0, 0), (3, 2), (4, 1)], HALVES)

    assert [(head.layer, head.head, head.mrr) for head in selection.heads] == [(3, 2, 1.0)]
    assert selection.held_out[0] == selection.held_out_mrr == 1
    assert len(selection.held_out) == 3


def test_the_held_out_half_decides_how_many_heads() -> None:
    # Each of two heads is misled by one other sentence; only together they find the evidence.
    first, second = [1.0, 1.2, -1.0, 0.0], [1.0, -1.0, 1.2, 0.0]

    selection = select(observations(first, second, [-3.0, 0.0, 0.0, 0.0]), [(1, 0), (2, 0), (3, 0)], HALVES)

    assert [(head.layer, head.head) for head in selection.heads] == [(1, 0), (2, 0)]
    assert selection.held_out[:2] == (0.5, 1.0)


def test_a_second_head_must_gain_more_than_the_samples_noise() -> None:
    often = observations([2.0, 1.0, 0.0], [1.0, 1.5, 0.0], count=7)
    rarely = observations([1.0, 2.0, 0.0], [9.0, 0.0, 0.0], count=1)
    halves = [index % 2 == 1 for index in range(8)]

    selection = select([*often, *rarely], [(1, 0), (2, 0)], halves)

    assert selection.held_out == (0.875, 1.0)
    assert selection.size == 2

    selection = select([*often, *rarely, *observations(LOST, LOST, count=8)], [(1, 0), (2, 0)], halves * 2)

    assert selection.held_out[0] < selection.held_out[1]
    assert selection.size == 1


def test_no_more_than_sixteen_heads_are_tried() -> None:
    selection = select(observations(*[FOUND] * 20), [(0, head) for head in range(20)], HALVES)
    assert len(selection.held_out) == calibrate.MAX_HEADS
    assert len(selection.heads) == 1


@pytest.mark.parametrize("architecture", ["llama", "qwen3", "granite", "gemma3"])
def test_signals_equal_the_references(architecture: checkpoints.Architecture, tmp_path: Path) -> None:
    reader = Reader.load(checkpoints.make(architecture, tmp_path))
    sample = next(samples.generate("calibration", 1, 0, reader.count_tokens, lengths=(300,)))
    text = reader.tokenizer.apply_chat_template(
        [{"role": role, "content": content} for role, content in sample.messages],
        tokenize=False,
        add_generation_prompt=True,
    )
    prompt = tokenized(reader.tokenizer, reader.tokenizer(text).input_ids, text)
    located = locate(
        prompt, Source(sample.messages), sample.question, sample.context, head_profile.QUERY_TAIL
    )

    seen = reader.observe(sample)

    spans = [(sentence.start, sentence.end) for sentence in located.sentences]
    _, expected = Reference(tmp_path).relevance(
        prompt.token_ids, reader.candidates, located.query_rows, spans, located.silent
    )
    heard = seen.signals.clone()
    weakest = heard.masked_fill(heard.isinf(), torch.inf).amin(0).expand_as(heard)
    heard = torch.where(heard.isinf(), weakest, heard)
    # The reference scales by 1/√d whatever the model's own multiplier, as eq. 4 does.
    torch.testing.assert_close(heard, expected, atol=1e-4, rtol=1e-4)
    (evidence,) = seen.evidence
    start, end = located.sentences[evidence].start_char, located.sentences[evidence].end_char
    assert prompt.text[start:end].strip() == sample.evidence[0]


def test_windowed_layers_are_no_candidates(tmp_path: Path) -> None:
    reader = Reader.load(checkpoints.make("gemma3", tmp_path, layers=4, window_pattern=2))
    assert {layer for layer, _ in reader.candidates} == {1, 3}


def test_layers_without_positions_are_no_candidates(tmp_path: Path) -> None:
    config = SmolLM3Config(
        vocab_size=len(checkpoints.make_tokenizer()),
        hidden_size=64,
        intermediate_size=64,
        num_hidden_layers=4,
        num_attention_heads=4,
        num_key_value_heads=2,
        max_position_embeddings=4096,
        no_rope_layers=[1, 1, 1, 0],
        pad_token_id=0,
    )
    SmolLM3ForCausalLM(config).save_pretrained(tmp_path)
    checkpoints.make_tokenizer().save_pretrained(tmp_path)

    reader = Reader.load(tmp_path)

    assert reader.candidates == tuple((layer, head) for layer in (0, 1, 2) for head in range(4))


def test_a_model_of_windowed_layers_alone_is_refused(tmp_path: Path) -> None:
    checkpoints.make("gemma3", tmp_path, layers=2, window_pattern=3)
    with pytest.raises(HeadReaderError, match="no full-attention layer"):
        Reader.load(tmp_path)


def test_calibration_is_repeatable_and_describes_itself(tmp_path: Path) -> None:
    folder = checkpoints.make("llama", tmp_path / "tiny", layers=2, max_positions=1024)

    profile, _ = calibrate.calibrate(folder, count=4, seed=3, lengths=(200, 5000))

    assert profile == calibrate.calibrate(folder, count=4, seed=3, lengths=(200, 5000))[0]
    assert profile.fingerprint == head_profile.fingerprint(folder)
    assert (profile.model, profile.query_tail) == ("tiny", 4)
    described = profile.calibration
    assert (described.samples, described.seed, described.lengths) == (4, 3, (200,))
    assert "King James Version" in described.text
    assert [head.mrr for head in profile.heads] == sorted((head.mrr for head in profile.heads), reverse=True)


def test_the_command_writes_a_profile_that_the_model_finds(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = checkpoints.make("llama", tmp_path / "tiny", layers=2, max_positions=1024 + 12)
    out = folder / head_profile.FILE_NAME

    assert calibrate.run(str(folder), out, samples=4, seed=0) == 0

    profile = head_profile.find(folder, None)
    assert profile is not None
    printed = capsys.readouterr().out
    assert "MRR" in printed
    assert str(out) in printed


def test_what_cannot_be_done_is_said_before_the_work(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = checkpoints.make("llama", tmp_path / "tiny", layers=1, max_positions=128)
    out = tmp_path / "heads.json"

    for model, target, samples_wanted, said in (
        (str(tmp_path), out, 8, "config.json"),
        (str(folder), tmp_path / "absent" / "heads.json", 8, "absent"),
        (str(folder), out, 3, "At least 4 samples"),
        (str(folder), out, 8, "window of 128 tokens"),
        (str(tmp_path / "no model"), out, 8, "neither a folder"),
    ):
        assert calibrate.run(model, target, samples=samples_wanted, seed=0) == 1
        assert said in capsys.readouterr().err
    assert not out.exists()


def test_too_few_samples_are_an_error(tmp_path: Path) -> None:
    with pytest.raises(CalibrationError):
        calibrate.calibrate(checkpoints.make("llama", tmp_path, layers=1), count=3, seed=0)
