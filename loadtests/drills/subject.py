"""What is served in a drill."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from server.child import Server, running_server
from tests.support.checkpoints import make
from tests.support.forced import STEP_SECONDS
from tests.support.head_profiles import save_arbitrary
from tests.support.tiny import TINY

MODEL = "drilled"
BLOCK = 32
_READY_SECONDS = 1800
_ENVIRONMENT = {
    # A tiny model would otherwise be done before a drill can do anything to it.
    STEP_SECONDS: "0.004",
    # Every server of a machine would otherwise be bound to its first core.
    "VLLM_CPU_OMP_THREADS_BIND": "nobind",
    "VLLM_ENGINE_READY_TIMEOUT_S": str(_READY_SECONDS),
}


@dataclass(frozen=True, slots=True)
class Subject:
    """A model, the flags that every drill serves it with, and how near its log-probabilities must be.

    Always float32 and eager, so that a wrong answer stands out from noise.
    """

    name: str
    model: str
    flags: tuple[str, ...]
    near: float

    @staticmethod
    def tiny(folder: Path) -> "Subject":
        """A tiny Llama of random weights, whose log-probabilities depend strongly on positions."""
        made = make("llama", folder)
        save_arbitrary(made, MODEL)
        return Subject("a tiny Llama of random weights", str(made), (), 1e-3)

    @staticmethod
    def of(model: str) -> "Subject":
        """A model of the user's: a folder with a head profile, or shipped with one."""
        return Subject(Path(model).name, model, ("--kv-cache-memory-bytes", "1G"), 1e-2)

    @contextmanager
    def serve(
        self,
        *flags: str,
        env: Mapping[str, str] | None = None,
        command: Sequence[str] | None = None,
        port: int | None = None,
    ) -> Iterator[Server]:
        """A server of it, with further flags, until the block ends."""
        own = ("--served-model-name", MODEL, "--block-size", str(BLOCK), "--enable-prompt-tokens-details")
        arguments = [self.model, *TINY, *own, "--max-num-batched-tokens", "256", *self.flags, *flags]
        environment = {**_ENVIRONMENT, **(env or {})}
        with running_server(
            arguments, environment, command=command, port=port, ready_within=_READY_SECONDS
        ) as started:
            yield started
