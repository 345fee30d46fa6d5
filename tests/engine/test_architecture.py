"""What the architecture has of vLLM's own layers: compilation, tensor parallelism, quantised linears."""

from pathlib import Path
from typing import Any

import pytest

from server.init_config import Change, Source, init_config
from tests.support.cases import Case, Oracle
from tests.support.checkpoints import make
from tests.support.engine import started
from tests.support.hybrid_reference import HybridReference
from tests.support.hybrids import make_hybrid
from tests.support.int8 import quantised

pytestmark = pytest.mark.long

OPTIONS: dict[str, Any] = {"max_num_batched_tokens": 64, "num_gpu_blocks_override": 128}


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
