"""What a source of relevance is asked, and what it gives."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal, Protocol

import torch

SourceName = Literal["heads", "lexical", "embedding", "caller"]


@dataclass(frozen=True, slots=True)
class Asked:
    """A document's sentences, in its order, and the question about it."""

    sentences: tuple[str, ...]
    question: str


@dataclass(frozen=True, slots=True, eq=False)
class Reading:
    """What one source found.

    `z`: float64 [sentences], of mean 0 and deviation 1, or all 0 where the source tells no sentence from
    another. `seconds` that it took; `cost`: what else it took, by name. `unity`: how far the heads whose mean
    it is agree on the first, 1 where there are none. `shared`: how many of the question's `terms` different
    terms each sentence holds, int64 [sentences]; None of a source that does not go by terms.
    """

    source: SourceName
    z: torch.Tensor
    seconds: float
    cost: Mapping[str, int | float | bool] = field(default_factory=dict)
    unity: float = 1.0
    shared: torch.Tensor | None = None
    terms: int = 0


class SourceError(Exception):
    """A source that gave nothing; the message tells why, and nothing of the document."""

    def __init__(self, source: SourceName, why: str) -> None:
        self.source = source
        self.why = why
        super().__init__(f"{source}: {why}")


class Source(Protocol):
    """One way to tell which sentences matter to a question."""

    @property
    def name(self) -> SourceName:
        """What requests call it."""

    async def read(self, asked: Asked) -> Reading:
        """The relevance of every sentence; raises SourceError."""
