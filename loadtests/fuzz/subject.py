"""A tiny server to send examples to, and whether it is as it was before them."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import requests

from loadtests.fuzz.views import MODEL, PROFILE, PROMPT
from server.admin_key import HEADER, VARIABLE
from server.child import Server, running_server
from tests.http.servers import complete, wait_until_idle
from tests.support.checkpoints import make
from tests.support.head_profiles import save_arbitrary
from tests.support.tiny import TINY

WINDOW = 512
# Answers whose body names no end would otherwise fill the window, and take nine tenths of the time.
_SHORT = ("--override-generation-config", '{"max_new_tokens": 32}')
_START_SECONDS = 1200  # on a machine that does other work
ADMIN = {HEADER: "admin-key-of-the-fuzzer"}
_ENVIRONMENT = {
    VARIABLE: ADMIN[HEADER],
    # How many answers a request may ask for; vLLM's own 16,384 take a core for minutes.
    "VLLM_MAX_N_SEQUENCES": "16",
    # Every server of a machine would otherwise be bound to its first core.
    "VLLM_CPU_OMP_THREADS_BIND": "nobind",
}


def checkpoint(folder: Path) -> Path:
    """A tiny Llama with a head profile, written into a folder."""
    path = make("llama", folder)
    save_arbitrary(path, MODEL)
    return path


@contextmanager
def serving(model: Path, *, stock: bool) -> Iterator[Server]:
    """Ours or vLLM's own server of a checkpoint, with a short window."""
    flags = [*TINY, "--served-model-name", MODEL, "--max-model-len", str(WINDOW), *_SHORT]
    if not stock:
        flags += ["--qgpm-guard", "0"]  # which random models would not pass
    with running_server(
        [str(model), *flags], _ENVIRONMENT, stock=stock, ready_within=_START_SECONDS
    ) as server:
        yield server


def answers(server: Server) -> list[Any]:
    """What greedy requests are answered under the rule that the server started with, with QGPM and without.

    Waits until nothing runs and no block is in use; AssertionError where that does not come.
    """
    put = requests.put(server.url + PROFILE, json={"running": "finish"}, headers=ADMIN, timeout=60)
    put.raise_for_status()
    wait_until_idle(server)
    found = [complete(server, PROMPT, qgpm=qgpm, cache_salt="calm")["choices"] for qgpm in (False, True)]
    wait_until_idle(server)
    return found
