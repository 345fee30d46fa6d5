"""The relevance table on its way from the worker to the API process."""

from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt
import torch
from vllm.v1.outputs import ModelRunnerOutput

RELEVANCE = "ropeway_relevance"

_VALUE = np.dtype("<f4")


@dataclass
class RelevanceRunnerOutput(ModelRunnerOutput):
    """A step's output with the tables of the score passes that ended in it, by request id."""

    relevance: dict[str, bytes] = field(default_factory=dict)


def pack(table: torch.Tensor) -> bytes:
    """Serialise float32 [sentences, heads]."""
    return table.detach().to("cpu", torch.float32).numpy().astype(_VALUE).tobytes()


def unpack(data: bytes, num_sentences: int) -> npt.NDArray[np.float32]:
    """Inverse of `pack`: float32 [sentences, heads]."""
    return np.frombuffer(data, _VALUE).reshape(num_sentences, -1)
