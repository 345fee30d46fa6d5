"""What every test may use: the default model, a free port, and silence towards the internet."""

import os
import socket
from pathlib import Path

import pytest

# Before any import of them: no test may wait for a model hub, or report that it ran.
os.environ.setdefault("HF_HUB_OFFLINE", "1")
os.environ.setdefault("VLLM_NO_USAGE_STATS", "1")


@pytest.fixture(scope="session")
def default_model_path() -> Path:
    """The folder of the default model, from the user's cache; fetched the first time."""
    from server.default_model import fetch

    return fetch()


@pytest.fixture
def free_port() -> int:
    """A TCP port of the loopback interface that nothing used a moment ago."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port
