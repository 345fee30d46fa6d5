"""A Llama written in our architecture computes what vLLM's own Llama computes, bit for bit."""

from pathlib import Path
from typing import Any

import pytest

from server.init_config import Change, Source, init_config
from tests.engine.conftest import SMALL_BLOCKS, SMALL_CHUNK, SMALL_HEADS, SMALL_LENGTH
from tests.support.cases import Case
from tests.support.engine import Engine, started


def reexpressed(model: Path, folder: Path) -> Path:
    init_config(folder, Source.read(model), Change(), drop_rotation=False)
    return folder


def test_plain_and_moved_requests_of_a_small_model(
    small_engine: Engine, small_model: Path, tmp_path: Path
) -> None:
    cases = [Case(1, 150, forced=30), Case(2, 90, forced=20), Case(3, 70, forced=40)]
    asks = [cases[0].plain(), cases[1].moved(at=1), cases[2].scored(at=2)]
    options: dict[str, Any] = {
        "max_model_len": SMALL_LENGTH,
        "max_num_batched_tokens": SMALL_CHUNK,
        "num_gpu_blocks_override": SMALL_BLOCKS,
    }
    with started(reexpressed(small_model, tmp_path / "ours"), SMALL_HEADS, **options) as engine:
        found = engine.run(*asks)
    expected = small_engine.run(*asks)
    assert [answer.logprobs for answer in found] == [answer.logprobs for answer in expected]
    assert found[2].relevance is not None
    assert (found[2].relevance == expected[2].relevance).all()


@pytest.mark.long
def test_plain_requests_of_the_default_model(default_model_path: Path, tmp_path: Path) -> None:
    cases = [Case(1, 400, forced=30), Case(2, 90, forced=20), Case(3, 260, forced=40)]
    asks = [case.plain(at=number, prompt_logprobs=True) for number, case in enumerate(cases)]
    options: dict[str, Any] = {
        "max_model_len": 512,
        "max_num_batched_tokens": 128,
        "kv_cache_memory_bytes": 256 << 20,
    }
    with started(default_model_path, stock=True, **options) as engine:
        expected = engine.run(*asks)
    with started(reexpressed(default_model_path, tmp_path / "ours"), **options) as engine:
        found = engine.run(*asks)
    assert [answer.choices for answer in found] == [answer.choices for answer in expected]
    assert [answer.prompt_logprobs for answer in found] == [answer.prompt_logprobs for answer in expected]
