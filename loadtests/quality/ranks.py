"""What QGPM's heads made of the gold sentence, and what became of the answer where they ranked it first."""

from dataclasses import dataclass

from loadtests.quality.cells import PLAIN, Cells, Comparison
from loadtests.quality.observations import Observation


@dataclass(frozen=True, slots=True)
class Ranking:
    """Over `count` samples: the share whose best gold sentence ranked first, and its mean reciprocal rank.

    `first` and `later` are the method beside plain on the samples of each kind, None where there are none.
    """

    count: int
    first_share: float
    mrr: float
    first: Comparison | None
    later: Comparison | None


def ranking(cells: Cells, task: str, length: int, method: str = "qgpm") -> Ranking | None:
    """Of one cell; None where no sample tells a rank."""
    plain = cells.samples(task, length, PLAIN)
    first: list[tuple[Observation, Observation]] = []
    later: list[tuple[Observation, Observation]] = []
    ranks: list[int] = []
    for number, sample in cells.samples(task, length, method).items():
        if sample.evidence_rank is None:
            continue
        ranks.append(sample.evidence_rank)
        if number in plain:
            (later if sample.evidence_rank else first).append((sample, plain[number]))
    if not ranks:
        return None
    return Ranking(
        len(ranks),
        ranks.count(0) / len(ranks),
        sum(1 / (1 + rank) for rank in ranks) / len(ranks),
        Comparison.of(PLAIN, [first]) if first else None,
        Comparison.of(PLAIN, [later]) if later else None,
    )
