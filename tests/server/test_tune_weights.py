"""How much each source counts in a fusion."""

import torch

from positional.sources.contract import SourceName
from positional.sources.fusion import Choice, equal
from server.tune_weights import Told, weighed

SENTENCES = 6


def _told(evidence: int, **first: int) -> Told:
    """Each source puts one sentence first, and tells the others not apart."""
    z = {}
    for source, at in first.items():
        values = torch.full((SENTENCES,), -0.4, dtype=torch.float64)
        values[at] = 2.0
        z[source] = values
    return Told({name: z[name] for name in _NAMES if name in z}, frozenset({evidence}))


_NAMES: tuple[SourceName, ...] = ("heads", "lexical", "embedding")


def test_a_source_that_errs_less_often_than_the_first_counts_more() -> None:
    samples = [_told(4, heads=4, lexical=1), _told(4, heads=1, lexical=4), _told(5, heads=1, lexical=5)]
    assert weighed(("heads", "lexical"), samples) == Choice((("heads", 1.0), ("lexical", 2.0)))


def test_one_that_errs_more_often_counts_less() -> None:
    samples = [_told(4, heads=4, lexical=1), _told(4, heads=1, lexical=4), _told(5, heads=5, lexical=1)]
    assert weighed(("heads", "lexical"), samples) == Choice((("heads", 1.0), ("lexical", 0.5)))


def test_sources_that_agree_count_alike() -> None:
    samples = [_told(number, heads=number, lexical=number, embedding=number) for number in range(3)]
    assert weighed(_NAMES, samples) == equal(*_NAMES)


def test_every_evidence_counts_and_not_only_the_first() -> None:
    # Both put the first evidence first; heads put the second last, words barely before the rest.
    heads = torch.tensor([3.0, -3.0, 0.0, 0.0, 0.0, 0.0], dtype=torch.float64)
    words = torch.tensor([3.0, 1.0, -1.0, -1.0, -1.0, -1.0], dtype=torch.float64)
    told = Told({"heads": heads, "lexical": words}, frozenset({0, 1}))
    assert weighed(("heads", "lexical"), [told]) == Choice((("heads", 1.0), ("lexical", 2.0)))
