"""Folders that `ropeway init-config` writes."""

import json
from pathlib import Path

import pytest
from transformers import AutoConfig, LlamaConfig, SmolLM3Config

from cache.architecture_config import Architecture
from cache.translation import translated
from server import command
from tests.support.sizes import SIZE


@pytest.fixture
def llama(tmp_path: Path) -> Path:
    folder = tmp_path / "llama"
    LlamaConfig(**SIZE, architectures=["LlamaForCausalLM"], dtype="bfloat16").save_pretrained(folder)
    (folder / "model.safetensors").write_bytes(b"weights")
    (folder / "tokenizer.json").write_text("{}")
    (folder / "ropeway-heads.json").write_text("{}")
    return folder


def init(*arguments: object) -> int:
    return command.main(["init-config", *map(str, arguments)])


def architecture(folder: Path) -> Architecture:
    found: Architecture = AutoConfig.from_pretrained(folder).architecture
    return found


def test_a_pattern_alternates_windows_with_rotation_and_global_layers_without(tmp_path: Path) -> None:
    out = tmp_path / "new"
    assert init("--out", out, "--pattern", "3:1", "--window", 4096, "--layers", 8, "--hidden", 256) == 0
    layers = architecture(out).every_layer
    assert [layer.window for layer in layers] == [4096, 4096, 4096, None] * 2
    assert [layer.rotary for layer in layers] == ["full", "full", "full", "none"] * 2
    assert [layer.base for layer in layers] == [10_000.0, 10_000.0, 10_000.0, None] * 2
    written = json.loads((out / "config.json").read_text())
    assert written["architectures"] == ["RopewayForCausalLM"]
    assert written["model_type"] == "ropeway"
    assert written["layer_pattern"] == [
        *[{"rotary": "full", "window": 4096, "base": 10_000.0}] * 3,
        {"rotary": "none", "window": None},
    ]


def test_every_option_of_the_shape_is_in_the_configuration(tmp_path: Path) -> None:
    out = tmp_path / "new"
    shape = ("--layers", 4, "--hidden", 64, "--intermediate", 80, "--heads", 4, "--kv-heads", 2)
    more = ("--head-dim", 32, "--vocab", 100, "--max-positions", 999, "--untie", "--qk-norm")
    layers = ("--pattern", "1:1", "--window", 8, "--base", 5e5, "--rotary-fraction", 0.25)
    biases = ("--attention-bias", "--output-bias", "--mlp-bias")
    assert init("--out", out, *shape, *more, *biases, *layers, "--query-scale", 128, 0.2) == 0
    local = {"rotary": "partial", "rotary_fraction": 0.25, "base": 5e5, "window": 8, "qk_norm": True}
    scale = {"floor_scale": 128, "attn_scale": 0.2}
    assert architecture(out) == Architecture.read(
        {
            "num_hidden_layers": 4,
            "hidden_size": 64,
            "intermediate_size": 80,
            "num_attention_heads": 4,
            "num_key_value_heads": 2,
            "head_dim": 32,
            "vocab_size": 100,
            "max_position_embeddings": 999,
            "tie_word_embeddings": False,
            "attention_bias": True,
            "output_bias": True,
            "mlp_bias": True,
            "layer_pattern": [
                local,
                {"rotary": "none", "window": None, "qk_norm": True, "query_scale": scale},
            ],
        }
    )


def test_a_model_is_written_as_it_is_with_its_files(llama: Path, tmp_path: Path) -> None:
    out = tmp_path / "new"
    assert init("--out", out, "--from", llama) == 0
    found = architecture(out)
    assert found.every_layer == translated(LlamaConfig(**SIZE)).every_layer
    assert AutoConfig.from_pretrained(out).dtype == AutoConfig.from_pretrained(llama).dtype
    assert (out / "model.safetensors").samefile(llama / "model.safetensors")
    # The head profile is of the model as it was.
    assert sorted(file.name for file in out.iterdir()) == [
        *("config.json", "model.safetensors", "tokenizer.json")
    ]


def test_rotation_is_not_dropped_from_a_checkpoint_in_silence(
    llama: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "new"
    change = ("--out", out, "--from", llama, "--pattern", "3:1", "--window", 32)
    assert init(*change) == 1
    assert "layers 3 were trained with rotation" in capsys.readouterr().err
    assert not out.exists()
    assert init(*change, "--drop-rotation") == 0
    assert [layer.rotary for layer in architecture(out).every_layer] == ["full"] * 3 + ["none"]


def test_windows_alone_leave_rotation_as_it_was(llama: Path, tmp_path: Path) -> None:
    out = tmp_path / "new"
    assert init("--out", out, "--from", llama, "--pattern", "1:1", "--window", 32, "--global-rotates") == 0
    layers = architecture(out).every_layer
    assert [layer.window for layer in layers] == [32, None, 32, None]
    assert {layer.rotary for layer in layers} == {"full"}


def test_layers_that_never_rotated_do_not_begin_to(tmp_path: Path) -> None:
    source, out = tmp_path / "smollm3", tmp_path / "new"
    SmolLM3Config(**SIZE, no_rope_layers=[1, 0, 1, 0]).save_pretrained(source)
    assert init("--out", out, "--from", source, "--pattern", "2:2", "--window", 8, "--global-rotates") == 0
    assert [(layer.rotary, layer.window) for layer in architecture(out).every_layer] == [
        *(("full", 8), ("none", 8), ("full", None), ("none", None))
    ]


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        (["--layers", 4, "--hidden", 64], "--pattern"),
        (["--pattern", "3:1", "--hidden", 64, "--window", 8], "--layers"),
        (["--pattern", "3:1", "--layers", 4, "--hidden", 64], "--window"),
        (["--pattern", "0:1", "--layers", 4, "--hidden", 64, "--window", 8], "--window"),
        (["--from", "FOLDER", "--heads", 4], "--heads"),
        (["--from", "FOLDER", "--attention-bias"], "--attention-bias"),
        (["--from", "nowhere"], "--from nowhere"),
        (
            ["--pattern", "0:1", "--layers", 4, "--hidden", 64, "--heads", 3, "--kv-heads", 2],
            "num_key_value_heads",
        ),
        (
            ["--pattern", "1:1", "--window", 8, "--layers", 4, "--hidden", 64, "--rotary-fraction", 0.01],
            "rotary_fraction",
        ),
    ],
)
def test_what_does_not_fit_is_named(
    arguments: list[object], named: str, llama: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "new"
    assert init("--out", out, *(llama if each == "FOLDER" else each for each in arguments)) == 1
    assert named in capsys.readouterr().err
    assert not out.exists()


def test_a_folder_that_holds_something_is_left_alone(llama: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert init("--out", llama, "--from", llama) == 1
    assert "is not empty" in capsys.readouterr().err


@pytest.mark.parametrize("pattern", ["3", "3:", "0:0", "-1:1", "a:b"])
def test_a_pattern_is_two_numbers(pattern: str, tmp_path: Path) -> None:
    with pytest.raises(SystemExit):
        init("--out", tmp_path / "new", f"--pattern={pattern}", "--layers", 4, "--hidden", 64)
