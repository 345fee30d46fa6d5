"""The relevance table on its way from the worker to the API process."""

from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from vllm.v1.outputs import ModelRunnerOutput

RELEVANCE = "ropeway_relevance"
"""In a score pass's `kv_transfer_params`: its table as bytes."""

COLLECT_SECONDS = "ropeway_collect_seconds"
"""Beside it: how long the worker took to read it."""

_VALUE = np.dtype("<f4")


@dataclass(frozen=True, slots=True)
class RelevanceTable:
    """What one score pass found (`pack`ed), and the seconds that reading it took after the forward."""

    data: bytes
    seconds: float

    def to_params(self) -> dict[str, Any]:
        """As the request's output carries it."""
        return {RELEVANCE: self.data, COLLECT_SECONDS: self.seconds}


@dataclass
class RelevanceRunnerOutput(ModelRunnerOutput):
    """A step's output with the tables of the score passes that ended in it, by request id."""

    relevance: dict[str, RelevanceTable] = field(default_factory=dict)


def pack(table: torch.Tensor) -> bytes:
    """Serialise float32 [sentences, heads]."""
    return table.detach().to("cpu", torch.float32).numpy().astype(_VALUE).tobytes()


def unpack(data: bytes, num_sentences: int) -> npt.NDArray[np.float32]:
    """Inverse of `pack`: float32 [sentences, heads]."""
    return np.frombuffer(data, _VALUE).reshape(num_sentences, -1)
