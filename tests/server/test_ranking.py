"""Several sources asked at once, and what is made of those that fail."""

import asyncio
from dataclasses import dataclass, field

import pytest
import torch

from positional.qgpm import NothingToModulate
from positional.sources.contract import Asked, Reading, SourceError, SourceName
from positional.sources.fusion import Choice, fuse
from server.ranking import rank_sentences

ASKED = Asked(("One.", "Two."), "Which?")
BOTH = Choice((("heads", 1.0), ("lexical", 0.5)))


@dataclass
class Said:
    """A source that says what it was given, once all those it waits for have begun."""

    name: SourceName
    value: Reading | Exception
    waits_for: list["Said"] = field(default_factory=list)
    begun: asyncio.Event = field(default_factory=asyncio.Event)
    ended: bool = False

    async def read(self, asked: Asked) -> Reading:
        self.begun.set()
        try:
            for other in self.waits_for:
                await other.begun.wait()
            if isinstance(self.value, Exception):
                raise self.value
            return self.value
        finally:
            self.ended = True


def _reading(name: SourceName, *z: float) -> Reading:
    return Reading(name, torch.tensor(z, dtype=torch.float64), 0.25, {"cached": 3})


async def test_one_source_decides_alone() -> None:
    found = await rank_sentences([Said("heads", _reading("heads", 1, -1))], ASKED, Choice((("heads", 2.0),)))
    assert found.z.tolist() == [1, -1]
    assert found.describe() == {
        "name": "heads",
        "sources": [{"name": "heads", "weight": 2.0, "seconds": 0.25, "cached": 3}],
    }


async def test_several_are_asked_at_once_and_fused() -> None:
    one, two = Said("heads", _reading("heads", 1, -1)), Said("lexical", _reading("lexical", -1, 1))
    one.waits_for, two.waits_for = [two], [one]
    found = await rank_sentences([one, two], ASKED, BOTH)
    assert found.z.tolist() == fuse(found.readings, BOTH).tolist()
    described = found.describe()
    assert (described["name"], described["fusion"]) == ("fused", "sum")
    assert [source["weight"] for source in described["sources"]] == [1.0, 0.5]


async def test_the_others_decide_where_a_source_fails() -> None:
    sources = [Said("heads", _reading("heads", 1, -1)), Said("lexical", SourceError("lexical", "Timeout"))]
    found = await rank_sentences(sources, ASKED, BOTH)
    assert found.z.tolist() == [1, -1]
    assert found.describe()["sources"][1] == {"name": "lexical", "weight": 0.5, "failed": "Timeout"}


async def test_there_is_nothing_to_modulate_where_all_fail() -> None:
    found = await rank_sentences(
        [Said("embedding", SourceError("embedding", "Timeout"))], ASKED, Choice((("embedding", 1.0),))
    )
    with pytest.raises(NothingToModulate, match="no_relevance"):
        found.z  # noqa: B018  (it is read for its error)


async def test_another_error_ends_all_and_is_raised_itself() -> None:
    never = Said("lexical", _reading("lexical", 1, -1))
    waiting = Said("lexical", _reading("lexical", 1, -1), waits_for=[never])
    failing = Said("heads", KeyError("broken"), waits_for=[waiting])
    with pytest.raises(KeyError, match="broken"):
        await rank_sentences([failing, waiting], ASKED, BOTH)
    assert waiting.ended
