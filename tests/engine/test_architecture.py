"""What the architecture has of vLLM's own layers: compilation, tensor parallelism, quantised linears."""

import json
from pathlib import Path
from typing import Any

import pytest
from safetensors.torch import load_file, save_file

from server.init_config import Change, Source, init_config
from tests.support.cases import Case, Oracle
from tests.support.checkpoints import make
from tests.support.engine import started
from tests.support.hybrid_reference import HybridReference
from tests.support.hybrids import make_hybrid

pytestmark = pytest.mark.long

OPTIONS: dict[str, Any] = {"max_num_batched_tokens": 64, "num_gpu_blocks_override": 128}
INT8: dict[str, Any] = {
    "quant_method": "compressed-tensors",
    "format": "int-quantized",
    "ignore": ["lm_head"],
    "config_groups": {
        "group_0": {
            "targets": ["Linear"],
            "weights": {"num_bits": 8, "type": "int", "strategy": "channel", "symmetric": True},
            "input_activations": {
                "num_bits": 8,
                "type": "int",
                "strategy": "token",
                "symmetric": True,
                "dynamic": True,
            },
        }
    },
}


@pytest.mark.parametrize("pattern", ["3:1", "partial"])
def test_compiled_layers_compute_what_the_reference_does(pattern: str, tmp_path: Path) -> None:
    folder = make_hybrid(pattern, tmp_path)
    oracle, cases = Oracle(HybridReference(folder)), [Case(1, 150, forced=30), Case(2, 40, forced=20)]
    with started(folder, enforce_eager=False, **OPTIONS) as engine:
        answers = engine.run(*(case.plain() for case in cases))
    assert [answer.logprobs for answer in answers] == [oracle.plain(case) for case in cases]


def test_two_ranks_hold_a_half_each(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("VLLM_CPU_OMP_THREADS_BIND", "nobind")
    folder = make_hybrid("partial", tmp_path)
    oracle, case = Oracle(HybridReference(folder)), Case(1, 150, forced=30)
    with started(folder, tensor_parallel_size=2, **OPTIONS) as engine:
        plain, moved = engine.run(case.plain(), case.moved())
    assert plain.logprobs == oracle.plain(case)
    assert moved.logprobs == oracle.moved(case)


def test_quantised_weights_are_those_of_a_quantised_llama(tmp_path: Path) -> None:
    llama, ours = quantised(make("llama", tmp_path / "llama")), tmp_path / "ours"
    init_config(ours, Source.read(llama), Change(), drop_rotation=False)
    case = Case(1, 150, forced=30)
    with started(llama, stock=True, **OPTIONS) as engine:
        expected = engine.answer(case.plain())
    with started(ours, **OPTIONS) as engine:
        found = engine.answer(case.plain())
    assert found.logprobs == expected.logprobs


def quantised(folder: Path) -> Path:
    """The checkpoint with its linear layers in int8, by output channel."""
    weights = {}
    for name, weight in load_file(folder / "model.safetensors").items():
        if not name.endswith("_proj.weight"):
            weights[name] = weight
            continue
        scale = weight.abs().amax(dim=1, keepdim=True) / 127
        weights[name] = (weight / scale).round().char()
        weights[f"{name}_scale"] = scale
    save_file(weights, folder / "model.safetensors", metadata={"format": "pt"})
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps(config | {"quantization_config": INT8}))
    return folder
