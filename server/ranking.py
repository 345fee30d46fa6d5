"""Asks the sources that a request chose, and makes one relevance of what they say."""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch

from positional.qgpm import NothingToModulate
from positional.sources.contract import Asked, Reading, Source, SourceError
from positional.sources.fusion import Choice, fuse
from positional.sources.lexical import LexicalSource
from server.embeddings import Embeddings
from server.preparation import Preparation


@dataclass(frozen=True, slots=True)
class Ranking:
    """What the sources said, in the choice's order; a SourceError in place of what failed."""

    choice: Choice
    found: tuple[Reading | SourceError, ...]

    @property
    def readings(self) -> list[Reading]:
        """Of the sources that did not fail."""
        return [reading for reading in self.found if isinstance(reading, Reading)]

    @property
    def z(self) -> torch.Tensor:
        """The relevance, float64 [sentences]; raises NothingToModulate (`no_relevance`) where all failed."""
        if not self.readings:
            raise NothingToModulate("no_relevance")
        return fuse(self.readings, self.choice)

    def describe(self) -> dict[str, Any]:
        """JSON: the name, and what each source took, or why it gave nothing."""
        fused = {"fusion": self.choice.fusion} if len(self.found) > 1 else {}
        return {"name": self.choice.name, **fused, "sources": [*map(self._describe, self.found)]}

    def _describe(self, found: Reading | SourceError) -> dict[str, Any]:
        said = {"name": found.source, "weight": dict(self.choice.weights)[found.source]}
        if isinstance(found, SourceError):
            return {**said, "failed": found.why}
        return {**said, "seconds": found.seconds, **found.cost}


def sources_of(
    preparation: Preparation, heads: Source, embeddings: Embeddings | None, salt: str | None
) -> list[Source]:
    """The sources that a prompt's choice names, in its order; `salt`: the tenant's `cache_salt`."""
    sources: list[Source] = []
    for name in preparation.choice.sources:
        match name:
            case "heads":
                sources.append(heads)
            case "lexical":
                sources.append(LexicalSource())
            case "embedding":
                assert embeddings is not None  # otherwise the request was refused
                sources.append(embeddings.source(salt))
            case "caller":
                assert preparation.evidence is not None  # likewise
                sources.append(preparation.evidence)
    return sources


async def rank_sentences(sources: Sequence[Source], asked: Asked, choice: Choice) -> Ranking:
    """Ask all sources at once; the first error but a SourceError ends the others, and is raised."""
    if len(sources) == 1:
        return Ranking(choice, (await _read(sources[0], asked),))
    try:
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(_read(source, asked)) for source in sources]
    except BaseExceptionGroup as failed:
        raise failed.exceptions[0] from None
    return Ranking(choice, tuple(task.result() for task in tasks))


async def _read(source: Source, asked: Asked) -> Reading | SourceError:
    try:
        return await source.read(asked)
    except SourceError as error:
        return error
