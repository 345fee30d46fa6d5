"""What tests share: an engine whose cache holds twice the longest request and no more, and two cores."""

import os
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from tests.support.checkpoints import make
from tests.support.engine import Engine, started

SMALL_HEADS = ((1, 0), (3, 1))
SMALL_LENGTH = 512
SMALL_CHUNK = 64
# One block is vLLM's own.
SMALL_BLOCKS = 2 * SMALL_LENGTH // 32 + 1


@pytest.fixture(scope="session")
def small_model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make("llama", tmp_path_factory.mktemp("small"))


@pytest.fixture(scope="session")
def start_small(small_model: Path) -> Any:
    return partial(
        started,
        small_model,
        SMALL_HEADS,
        max_model_len=SMALL_LENGTH,
        max_num_batched_tokens=SMALL_CHUNK,
        num_gpu_blocks_override=SMALL_BLOCKS,
    )


@pytest.fixture(scope="session")
def shared_small_engine(start_small: Any) -> Iterator[Engine]:
    with start_small() as engine:
        yield engine


@pytest.fixture
def small_engine(shared_small_engine: Engine) -> Engine:
    shared_small_engine.forget()
    return shared_small_engine


@pytest.fixture
def two_cores(monkeypatch: pytest.MonkeyPatch) -> None:
    """vLLM places CPU ranks by NUMA node, and refuses two on one node unless it is told their cores."""
    cores = sorted(os.sched_getaffinity(0))
    if len(cores) < 2:
        pytest.skip("two ranks need two cores")
    monkeypatch.setenv("VLLM_CPU_OMP_THREADS_BIND", f"{cores[0]}|{cores[1]}")
