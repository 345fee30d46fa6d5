"""Servers of tiny checkpoints that all tests of this folder share.

A test module names this one in `pytest_plugins`; an imported fixture would be started once a module.
"""

from collections.abc import Iterator
from pathlib import Path

import pytest

from server.admin_key import VARIABLE
from server.child import Server, running_server
from tests.http.servers import (
    ADMIN_KEY,
    API_KEY,
    CROWDED_BLOCKS,
    CROWDED_CHUNK,
    CROWDED_LENGTH,
    CROWDED_LIMITS,
    MODEL,
    SHARED,
)
from tests.support.checkpoints import make
from tests.support.forced import STEP_SECONDS
from tests.support.head_profiles import save_arbitrary


@pytest.fixture(scope="session")
def checkpoint(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A tiny Llama with a head profile in its folder."""
    folder = make("llama", tmp_path_factory.mktemp("http-tiny"))
    save_arbitrary(folder, MODEL)
    return folder


@pytest.fixture(scope="session")
def server(checkpoint: Path) -> Iterator[Server]:
    """QGPM off by default, much room, a prompt of 4,000 tokens in 32 steps, all routes, slow steps."""
    arguments = [str(checkpoint), *SHARED, "--max-num-batched-tokens", "128"]
    environment = {"VLLM_SERVER_DEV_MODE": "1", VARIABLE: ADMIN_KEY, STEP_SECONDS: "0.004"}
    with running_server(arguments, environment) as started:
        yield started


@pytest.fixture(scope="session")
def crowded(checkpoint: Path) -> Iterator[Server]:
    """QGPM on by default, little memory, an API key, low limits."""
    arguments = [
        *(str(checkpoint), *SHARED),
        *("--qgpm", "on", "--head-profile", str(checkpoint / "ropeway-heads.json")),
        *("--max-model-len", str(CROWDED_LENGTH), "--max-num-batched-tokens", str(CROWDED_CHUNK)),
        *("--num-gpu-blocks-override", str(CROWDED_BLOCKS)),
        *(part for flag, limit in CROWDED_LIMITS.items() for part in (flag, str(limit))),
    ]
    with running_server(arguments, {"VLLM_API_KEY": API_KEY}) as started:
        yield started


@pytest.fixture(scope="session")
def headless(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """A checkpoint without a head profile, with prompt embeddings allowed, and without the page."""
    folder = make("llama", tmp_path_factory.mktemp("http-headless"), layers=2)
    with running_server([str(folder), *SHARED, "--enable-prompt-embeds", "--no-ui"]) as started:
        yield started
