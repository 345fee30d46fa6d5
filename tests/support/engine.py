"""Real engines in a child process.

The engine core runs inside the child, so a test decides at which step a request arrives, is aborted or
preempted, and reads the worker's state between steps.
"""

import multiprocessing
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from tests.support import engine_child
from tests.support.asks import Answer, Ask

_ENVIRONMENT = {
    "VLLM_ENABLE_V1_MULTIPROCESSING": "0",
    "VLLM_USE_V2_MODEL_RUNNER": "0",
    "VLLM_LOGGING_LEVEL": "WARNING",
    "OMP_NUM_THREADS": "1",
}
_SECONDS = 400


class EngineStartError(RuntimeError):
    """The engine did not start; the message is its own error with all causes."""


class Engine:
    """A started engine; every call runs in its process."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def run(
        self, *asks: Ask, preempt_before: Sequence[int] = (), keeping_blocks: bool = False
    ) -> list[Answer]:
        """Serve `asks` together. Before the given steps, all running requests are preempted.

        The cache is dropped with them unless it is said to keep its blocks. The answers of aborted requests
        are left out.
        """
        answers: list[Answer] = self._call("run", asks, tuple(preempt_before), keeping_blocks)
        return answers

    def answer(self, ask: Ask) -> Answer:
        """Serve one request alone."""
        (answer,) = self.run(ask)
        return answer

    def memories(self, *asks: Ask, preempt_before: Sequence[int] = ()) -> list[dict[str, Any]]:
        """Serve `asks` together; where the cache's memory goes behind every step."""
        memories: list[dict[str, Any]] = self._call("memories", asks, tuple(preempt_before))
        return memories

    def memory(self) -> dict[str, Any]:
        """Where the cache's memory goes now, as `GET /v1/cache` tells it."""
        memory: dict[str, Any] = self._call("memory")
        return memory

    def plans(self) -> list[dict[str, Any]]:
        """The layer plan of every rank."""
        found: list[dict[str, Any]] = self._call("plans")
        return found

    def forget(self) -> None:
        """Drop all cached blocks."""
        self._call("forget")

    def block_hashes(self, ask: Ask) -> list[bytes]:
        """The hashes that the engine core gives the full blocks of a request's prompt."""
        hashes: list[bytes] = self._call("block_hashes", ask)
        return hashes

    def keys(self, ask: Ask, tokens: Sequence[int]) -> npt.NDArray[np.float32]:
        """The keys that reach attention at some positions of a prompt: [tokens, layers, kv heads × width].

        Nothing of the prompt may be cached.
        """
        keys: npt.NDArray[np.float32] = self._call("keys", ask, tuple(tokens))
        return keys

    def attended(self, ask: Ask) -> list[tuple[npt.NDArray[np.float32], npt.NDArray[np.float32]]]:
        """By layer, the query of a prompt's last token as it reaches attention, and the answer to it."""
        found: list[tuple[npt.NDArray[np.float32], npt.NDArray[np.float32]]] = self._call("attended", ask)
        return found

    def unattended(
        self, tokens: Sequence[int], first: int
    ) -> list[tuple[npt.NDArray[np.float32], npt.NDArray[np.float32]]]:
        """By layer, queries and keys [tokens, heads × width] as they reach attention, which answers nothing.

        The tokens stand at `first` and behind it.
        """
        found: list[tuple[npt.NDArray[np.float32], npt.NDArray[np.float32]]] = self._call(
            "unattended", tuple(tokens), first
        )
        return found

    def state(self) -> dict[str, Any]:
        """What scheduler and worker hold now; see `engine_child.Driver.state`."""
        state: dict[str, Any] = self._call("state")
        return state

    def _call(self, name: str, *arguments: Any) -> Any:
        self._connection.send((name, arguments))
        if not self._connection.poll(_SECONDS):
            raise TimeoutError(f"the engine did not answer {name} within {_SECONDS} s")
        failed, value = self._connection.recv()
        if failed:
            raise RuntimeError(value)
        return value


@contextmanager
def started(
    model: Path, heads: Sequence[tuple[int, int]] = (), *, stock: bool = False, **options: Any
) -> Iterator[Engine]:
    """An engine of `model` (float32, eager, blocks of 32) until the block ends.

    `options` are vLLM's engine arguments; `stock` leaves everything of ours out. Raises EngineStartError.
    """
    with _child(engine_child.serve, str(model), tuple(heads), stock, options) as connection:
        failed, message = connection.recv()
        if failed:
            raise EngineStartError(message)
        yield Engine(connection)


def plans(models: Sequence[Path], **options: Any) -> list[dict[str, Any] | str]:
    """Start an engine of each model with weights made up: its layer plan, or why it does not start."""
    with _child(engine_child.read_plans, tuple(map(str, models)), options) as connection:
        found: list[dict[str, Any] | str] = [connection.recv() for _ in models]
        return found


@contextmanager
def _child(target: Callable[..., None], *arguments: Any) -> Iterator[Connection]:
    context = multiprocessing.get_context("spawn")
    ours, theirs = context.Pipe()
    process = context.Process(target=target, args=(theirs, *arguments))
    with _environment(_ENVIRONMENT):
        process.start()
    theirs.close()
    try:
        if not ours.poll(_SECONDS):
            raise EngineStartError(f"nothing heard within {_SECONDS} s")
        yield ours
    finally:
        ours.close()
        process.join(20)
        if process.is_alive():
            process.kill()
            process.join()


@contextmanager
def _environment(values: Mapping[str, str]) -> Iterator[None]:
    before = {name: os.environ.get(name) for name in values}
    os.environ.update(values)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value
