"""`ropeway plan`: what it prints of real models, and the cache that their requests then use."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.support.asks import Ask
from tests.support.checkpoints import CHUNK, WINDOW, Architecture, make
from tests.support.engine import started
from tests.support.hybrids import ENCODED, make_hybrid

ROOT = Path(__file__).resolve().parents[2]
FLAGS = ("--block-size", "32", "--max-model-len", "8192", "--kv-cache-memory-bytes", "64M")
DTYPE = ("--dtype", "float32", "--gpu-memory-utilization", "0.1")
# Keys and values of two heads of width 32 in float32.
TOKEN = 2 * 2 * 32 * 4


def said(model: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "server.command", "plan", str(model), *DTYPE, *FLAGS, *arguments],
        cwd=ROOT,
        env=os.environ | {"HF_HUB_OFFLINE": "1", "OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        timeout=300,
    )


def told(model: Path, *arguments: str) -> dict[str, Any]:
    """The plan as JSON, which is all that stands on standard output."""
    ended = said(model, "--json", *arguments)
    assert ended.returncode == 0, ended.stderr
    plan: dict[str, Any] = json.loads(ended.stdout)
    return plan


def test_a_plan_tells_layers_and_memory_without_weights(tmp_path: Path) -> None:
    model = make_hybrid("3:1", tmp_path, window=256)
    (model / "model.safetensors").unlink()
    plan = told(model, "--lengths", "256,8000")
    assert [layer["span"] for layer in plan["layers"]] == [256, 256, 256, "full"] * 2
    assert [layer["rotary"] for layer in plan["layers"]] == [True, True, True, False] * 2
    assert [layer["bytes_per_token"] for layer in plan["layers"]] == [TOKEN] * 8
    assert plan["cache"]["bytes_per_token"] == 8 * TOKEN
    short, long = plan["cache"]["lengths"]
    assert (short["tokens"], short["bytes"], short["bytes_without_windows"]) == (256, *[256 * 8 * TOKEN] * 2)
    # Of 250 blocks two layers keep all, and six those of the window.
    assert long["bytes"] == (2 * 250 + 6 * 8) * 32 * TOKEN
    assert long["bytes"] <= 0.3 * long["bytes_without_windows"]
    # A block of the pool holds two layers; one is never given out.
    blocks = (64 << 20) // (2 * 32 * TOKEN) - 1
    assert long["requests"] == blocks // (250 + 3 * 8)


@pytest.mark.long
def test_a_request_uses_the_cache_that_was_planned(tmp_path: Path) -> None:
    hybrid = make_hybrid("3:1", tmp_path / "hybrid", window=256)
    (planned,) = told(hybrid, "--lengths", "8000")["cache"]["lengths"]
    (whole,) = told(make_hybrid("3:1", tmp_path / "global", window=None), "--lengths", "8000")["cache"][
        "lengths"
    ]
    options = {"max_model_len": 8192, "max_num_batched_tokens": 512, "kv_cache_memory_bytes": 64 << 20}
    with started(hybrid, **options) as engine:
        # 16 steps read all but the last ten tokens; behind ten more the request holds 8,000.
        memory = engine.memories(Ask([7] * 7990, [5] * 20))[25]
    # Both kinds of layers take their blocks from one pool.
    assert {group["kind"] for group in memory["pools"][0]["groups"]} == {"full", "sliding"}
    used = sum(group["bytes_used"] for group in memory["pools"][0]["groups"])
    assert used == planned["bytes"]
    assert used <= 0.3 * whole["bytes"]
    assert whole["bytes"] == planned["bytes_without_windows"] == whole["bytes_without_windows"]


@pytest.mark.long
def test_the_longest_length_is_what_memory_allows_where_that_is_asked_for(tmp_path: Path) -> None:
    model = make_hybrid("3:1", tmp_path, window=256)
    small = ("--max-model-len", "-1", "--kv-cache-memory-bytes", "8M")
    *_, longest = told(model, *small)["cache"]["lengths"]
    assert 1024 < longest["tokens"] < 16_384
    assert longest["requests"] >= 1
    ended = said(model, *small, "--lengths", str(longest["tokens"] + 1))
    assert f"tokens are more than --max-model-len, {longest['tokens']}" in ended.stderr


@pytest.mark.long
def test_a_plan_is_a_table_where_no_json_is_wanted(tmp_path: Path) -> None:
    ended = said(make_hybrid("partial", tmp_path))
    assert ended.returncode == 0, ended.stderr
    assert "8, half" in ended.stdout
    assert "1,024" in ended.stdout


PATH_INTEGRAL = {"rotary": "none", "window": None, "bias": {"kind": "path_integral"}}

# By pattern: numbers behind a cached key by layer, the width of all of the model's heads on the CPU, and what
# of a request tells blocks apart.
ENCODINGS: dict[str, tuple[list[int], int, list[str]]] = {
    "alibi": ([0, 0, 0, 0], 32, ["rope", "qgpm"]),
    "gated slopes": ([8, 4, 12, 8], 64, ["rope"]),
    "forget gates": ([3, 3, 3, 0], 64, ["rope", "qgpm"]),
    "learned bases": ([0, 0, 0, 0], 32, ["rope", "qgpm"]),
    "learned spectra": ([0, 0, 0, 0], 32, []),
    "learned planes": ([0, 0, 0, 3], 64, []),
}


@pytest.mark.long
@pytest.mark.parametrize("pattern", ENCODED)
def test_the_plan_of_an_encoding_tells_its_cache_rule_and_what_a_token_costs(
    pattern: str, tmp_path: Path
) -> None:
    extra, width, moving = ENCODINGS[pattern]
    plan = told(make_hybrid(pattern, tmp_path))
    assert plan["identity"] == ["tokens", *moving]
    layers = plan["layers"]
    assert [layer["cache"]["rule"] for layer in layers] == ["fixed"] * 4
    assert [layer["cache"]["extra_dimensions"] for layer in layers] == extra
    # Phases of forget gates: eight bytes of each of two key heads.
    phases = [16 if layer["bias"] == "forget" else 0 for layer in layers]
    assert [layer["bytes_per_token"] for layer in layers] == [2 * 2 * width * 4 + more for more in phases]
    assert plan["cache"]["bytes_per_token"] == sum(layer["bytes_per_token"] for layer in layers)


@pytest.mark.long
def test_made_up_weights_that_turn_little_are_planned_in_bf16(tmp_path: Path) -> None:
    short = ("--dtype", "bfloat16", "--max-model-len", "1024")
    layers = told(make_hybrid("learned planes", tmp_path), *short)["layers"]
    assert [layer["learned"] for layer in layers] == ["plane"] * 4


@pytest.mark.long
def test_what_cannot_be_served_has_no_plan_and_the_reason_is_told(tmp_path: Path) -> None:
    model = make_hybrid("all-NoPE", tmp_path, layers=[PATH_INTEGRAL] * 4)
    ended = said(model)
    assert ended.returncode == 2
    assert "layers.0.bias.kind: cannot be served: each query weighs every step" in ended.stderr
    assert "Traceback" not in ended.stderr
    assert ended.stdout == ""


# By architecture: what a layer that is not global sees, which of four layers rotate, and how much of a head.
KNOWN: dict[Architecture, tuple[int | str, list[bool], int]] = {
    # vLLM lets it see one token more than its config says.
    "cohere2": (WINDOW + 1, [True, False] * 2, 32),
    "exaone4": (WINDOW, [True, False] * 2, 32),
    "llama4": (CHUNK, [True, False] * 2, 32),
    "gemma3": (WINDOW, [True] * 4, 32),
    "glm4": ("full", [True] * 4, 16),
}


@pytest.mark.long
@pytest.mark.parametrize("architecture", KNOWN)
def test_the_plans_of_vllms_own_models(architecture: Architecture, tmp_path: Path) -> None:
    span, rotary, width = KNOWN[architecture]
    # Where vLLM looks for Llama 4's query scale; else it is off up to 32,768 tokens.
    tuned = json.dumps({"attn_temperature_tuning": True})
    layers = told(make(architecture, tmp_path), "--override-generation-config", tuned)["layers"]
    assert [layer["span"] for layer in layers] == [span, "full"] * 2
    assert [layer["rotary"] for layer in layers] == rotary
    assert [layer["rotary_dim"] for layer in layers] == [width if rotates else 0 for rotates in rotary]
    assert [layer["chunked"] for layer in layers] == [architecture == "llama4", False] * 2
    assert [layer["query_scale"] is not None for layer in layers] == [False, architecture == "llama4"] * 2


def configured(folder: Path, model_type: str, architecture: str, **fields: Any) -> Path:
    """A folder that holds a configuration of four layers and nothing else."""
    config = {
        "architectures": [architecture],
        "model_type": model_type,
        "vocab_size": 512,
        "hidden_size": 128,
        "intermediate_size": 256,
        "num_hidden_layers": 4,
        "num_attention_heads": 4,
        "num_key_value_heads": 2,
        "max_position_embeddings": 8192,
        "no_rope_layers": [1, 1, 1, 0],
        "pad_token_id": 0,
        **fields,
    }
    (folder / "config.json").write_text(json.dumps(config))
    return folder


@pytest.mark.long
def test_the_plan_of_a_smollm3(tmp_path: Path) -> None:
    layers = told(configured(tmp_path, "smollm3", "SmolLM3ForCausalLM"))["layers"]
    assert [layer["rotary"] for layer in layers] == [True, True, True, False]
    assert [layer["span"] for layer in layers] == ["full"] * 4


@pytest.mark.long
def test_a_config_that_says_other_than_the_model_does_is_refused(tmp_path: Path) -> None:
    ended = said(configured(tmp_path, "llama", "LlamaForCausalLM"))
    assert ended.returncode == 2
    assert "ropeway plan: layer 3 rotates its keys, and its config says that it does not" in ended.stderr
    assert "Traceback" not in ended.stderr
    assert ended.stdout == ""


@pytest.mark.long
def test_lengths_beyond_the_models_are_refused(tmp_path: Path) -> None:
    ended = said(make("llama", tmp_path), "--lengths", "8193")
    assert ended.returncode == 2
    assert "--lengths: 8193 tokens are more than --max-model-len, 8192" in ended.stderr
    assert ended.stdout == ""
