"""Whether relevance is trusted: a guard that lets QGPM act fully, softly or not at all.

The paper has none. Its maps pay where the evidence ranks first and cost the answer where it does not; whether
it does shows, before the answer, in how the relevance stands out and in whether its sources agree.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from typing import Literal

import numpy as np
import torch

from positional.evidence_count import REACH, evidence_count
from positional.qgpm import QGPMConfig, check_differs
from positional.relevance import mean_ranks
from positional.sources.contract import Reading

Decision = Literal["full", "soft", "plain"]

DEFAULT_DIAL = 0.5
SURE = 0.99
"""The confidence that a dial of 1 asks for."""
SOFT_SHARE = 0.9
"""Of the confidence for `full`: what `soft` asks for."""
_FURTHEST = 10.0
"""Deviations, beyond which a distance counts no more."""


@dataclass(frozen=True, slots=True)
class Signs:
    """What is known before the answer pass of how far relevance can be trusted.

    `margin`: how far it falls behind the evidence, and `prominence`, how far its first sentence stands above
    the others' mean, both in deviations of the others and as logarithms, the second less what the first of
    so many normal numbers shows; `agreement`: the mean over the sources of 1/rank of that sentence; `unity`:
    the same of the heads among themselves, 1 without them; `shared`: logarithm of 1 and how many of
    the question's terms this sentence holds, and `sole`: 1 where it is one of several, which chance alone
    finds often; both 0 without a source that goes by terms; `evidence`: logarithm of how many sentences seem
    evidence; `compressed`: the share of the sentences' tokens that are behind the first K_s;
    `heads`, `lexical`, `embedding`: 1 where that source spoke.
    """

    margin: float
    prominence: float
    agreement: float
    unity: float
    shared: float
    sole: float
    evidence: float
    compressed: float
    heads: float
    lexical: float
    embedding: float

    @classmethod
    def of(
        cls, readings: Sequence[Reading], z: torch.Tensor, spans: Sequence[tuple[int, int]], k_sharp: int
    ) -> "Signs":
        """From what at least one source said, and what was made of it: z float64 [sentences], 2 or more.

        `spans`: the sentences' tokens.
        """
        ordered, order = torch.sort(z, descending=True, stable=True)
        count = evidence_count(z, REACH * k_sharp)
        count = min(count, len(z) - 1)
        rest = ordered[count:]
        spread = float(rest.std(correction=0))
        fall = float(ordered[count - 1] - rest[0])
        above = float(ordered[0] - rest.mean())
        lengths = torch.tensor([end - start for start, end in spans], dtype=torch.float64)
        kept = float(lengths[order[:k_sharp]].sum() / lengths.sum())
        first = order[0]
        shared, terms = _shared(readings, int(first))
        spoke = {reading.source for reading in readings}
        return cls(
            margin=math.log1p(_deviations(fall, spread)),
            prominence=math.log1p(_deviations(above, spread)) - math.log1p(_expected_first(len(z))),
            agreement=sum(float(1 / mean_ranks(reading.z)[first]) for reading in readings) / len(readings),
            unity=min(reading.unity for reading in readings),
            shared=math.log1p(shared),
            sole=float(shared == 1 and terms > 1),
            evidence=math.log(count),
            compressed=1 - kept,
            heads=float("heads" in spoke),
            lexical=float("lexical" in spoke),
            embedding=float("embedding" in spoke),
        )


SIGNS = tuple(field.name for field in fields(Signs))


@dataclass(frozen=True, slots=True)
class Guard:
    """A calibrated judge of relevance.

    `weights`, one for each of Signs, and `bias`: of a logistic regression of whether all evidence is
    kept. `level`: the confidence that the default dial asks for. Raises ValueError for another number of
    weights, and for a level outside 0 to SURE.
    """

    weights: tuple[float, ...]
    bias: float
    level: float

    def __post_init__(self) -> None:
        if len(self.weights) != len(SIGNS):
            raise ValueError(f"weights must be {len(SIGNS)}, of {', '.join(SIGNS)}, not {len(self.weights)}")
        if not 0 <= self.level <= SURE:
            raise ValueError(f"level must lie in [0, {SURE}] (got {self.level!r})")

    def confidence(self, signs: Signs) -> float:
        """The chance that all evidence is kept, in (0, 1)."""
        values = (getattr(signs, name) for name in SIGNS)
        logit = self.bias + sum(weight * value for weight, value in zip(self.weights, values, strict=True))
        return 1 / (1 + math.exp(-max(-500.0, min(500.0, logit))))

    def asks(self, dial: float) -> float:
        """The confidence that a dial from 0 to 1 asks for before it lets QGPM act fully: 0 at 0."""
        return float(np.interp(dial, (0.0, DEFAULT_DIAL, 1.0), (0.0, self.level, SURE)))

    def decide(self, confidence: float, dial: float) -> Decision:
        """What a dial makes of a confidence."""
        asked = self.asks(dial)
        if confidence >= asked:
            return "full"
        return "soft" if confidence >= SOFT_SHARE * asked else "plain"


PACKAGE_GUARD = Guard(
    weights=(0.324, 3.658, 0.477, 0.757, 1.176, -5.631, -0.12, 2.77, 1.27, 2.598, 1.162),
    bias=-5.703,
    level=0.95,
)
"""Of 145 tuning samples of the default model, ranked by heads, BM25, wordllama, their fusions and chance."""


@dataclass(frozen=True, slots=True)
class Verdict:
    """What a guard decided by a `dial` that asked for a confidence of `asked`, and why.

    `signs`: None where the caller's evidence alone spoke, which is not doubted.
    """

    decision: Decision
    dial: float
    asked: float
    confidence: float
    signs: Signs | None


def judge(
    guard: Guard,
    dial: float,
    readings: Sequence[Reading],
    z: torch.Tensor,
    spans: Sequence[tuple[int, int]],
    k_sharp: int,
) -> Verdict:
    """The verdict on relevance; arguments as `Signs.of`'s. Raises NothingToModulate."""
    check_differs(z)
    asked = guard.asks(dial)
    if all(reading.source == "caller" for reading in readings):
        return Verdict("full", dial, asked, 1.0, None)
    signs = Signs.of(readings, z, spans, k_sharp)
    confidence = guard.confidence(signs)
    return Verdict(guard.decide(confidence, dial), dial, asked, confidence, signs)


def softened(config: QGPMConfig) -> QGPMConfig:
    """Milder maps, for relevance that may err: twice the sentences kept, low score and floor halfway to 1."""
    return replace(
        config,
        k_broad=2 * config.k_broad,
        k_sharp=2 * config.k_sharp,
        score_low=(1 + config.score_low) / 2,
        stride_floor=(1 + config.stride_floor) / 2,
    )


def _shared(readings: Sequence[Reading], sentence: int) -> tuple[int, int]:
    """How many of how many terms a sentence holds, by the source that goes by terms."""
    for reading in readings:
        if reading.shared is not None:
            return int(reading.shared[sentence]), reading.terms
    return 0, 0


def _deviations(distance: float, spread: float) -> float:
    return min(distance / spread, _FURTHEST) if spread > 0 else _FURTHEST


def _expected_first(count: int) -> float:
    """About where the first of so many standard normal numbers lies."""
    return math.sqrt(2 * math.log(count))
