"""The guard's calibration: when are the sentences that relevance puts first evidence, and when does that pay?

Samples of the tuning split are ranked by every source that the server has, and by fusions of them; beside
them stand random rankings, alone and fused with the heads', which a guard has to tell from others.
"""

from collections.abc import Mapping, Sequence
from dataclasses import astuple, dataclass
from statistics import fmean
from typing import Any

import numpy as np
import torch
from scipy import optimize, special, stats

from positional.guard import SIGNS, Guard, Signs
from positional.qgpm import QGPMConfig
from positional.relevance import standardise
from positional.sources.contract import Reading, SourceName
from positional.sources.fusion import Choice, fuse
from server.likelihood import Gold
from server.samples import Sample
from server.tune_measure import Asked, with_heads

Sources = tuple[SourceName, ...]

CHOICES: tuple[Sources, ...] = (("heads",), ("lexical",), ("heads", "lexical"))
WITH_EMBEDDING: tuple[Sources, ...] = (
    *CHOICES,
    ("embedding",),
    ("lexical", "embedding"),
    ("heads", "lexical", "embedding"),
)
"""What is calibrated where the server has embeddings."""

NOISE = 4
"""Random rankings of each kind for a sample."""
_PENALTY = 0.001
"""On the squares of weights, in units of the mean log-likelihood."""
_LEVELS = tuple(round(0.05 * step, 2) for step in range(1, 20))
_CONFIDENCE = 0.95


@dataclass(frozen=True, slots=True)
class Judged:
    """A ranking of one sample's sentences, its signs, and whether the first is evidence.

    `gain`: what full modulation by it adds to the answer's log-probability, in nats; None where nobody asked.
    """

    kind: str
    signs: Signs
    right: bool
    gain: float | None


async def judged(
    asked: Asked,
    one: Sample,
    golds: Sequence[Gold],
    plain: float,
    config: QGPMConfig,
    choices: Sequence[Sources],
    draw: torch.Generator,
) -> list[Judged]:
    """One sample ranked by every choice, and by chance; raises LikelihoodError.

    `plain`: the log-probability of its answers (nats).
    """
    found: list[Judged] = []
    for sources in choices:
        field = {**with_heads(config, one), "relevance": list(sources), "guard": 0}
        told = await asked.relevance(one, field)
        if "guard" not in told:  # it tells no sentence from another, so nothing is modulated
            continue
        gain = await asked.logprob(one, golds, field) - plain
        found.append(_judged(one, told["sentences"], Signs(**told["guard"]["signs"]), gain))
        if sources == ("heads",):
            found.extend(_by_chance(one, told["sentences"], config, draw))
    return found


def calibrated(rankings: Sequence[Judged]) -> Guard:
    """The guard of these rankings: a logistic regression on their signs, and the level that pays best.

    The level is the one of the highest mean gain among those that surely cost no kind of question; the higher
    of equals, and the highest of all where every one costs.
    """
    signs = np.array([astuple(ranking.signs) for ranking in rankings])
    right = np.array([ranking.right for ranking in rankings], dtype=float)
    *weights, bias = (round(float(value), 3) for value in _regression(signs, right))
    first, *others = weights
    guard = Guard((first, *others), bias, 0.0)  # type: ignore[arg-type]
    return Guard(guard.weights, bias, _level(guard, rankings))


def _regression(signs: np.ndarray, right: np.ndarray) -> np.ndarray:
    columns = np.column_stack([signs, np.ones(len(signs))])

    def loss(weights: np.ndarray) -> float:
        logits = columns @ weights
        likelihood = right * special.log_expit(logits) + (1 - right) * special.log_expit(-logits)
        return float(_PENALTY * (weights[:-1] ** 2).sum() - likelihood.mean())

    return np.asarray(optimize.minimize(loss, np.zeros(len(SIGNS) + 1), method="BFGS").x)


def _level(guard: Guard, rankings: Sequence[Judged]) -> float:
    asked = [
        (ranking.kind, guard.confidence(ranking.signs), ranking.gain)
        for ranking in rankings
        if ranking.gain is not None
    ]
    kinds = sorted({kind for kind, _, _ in asked})
    best, most = _LEVELS[-1], 0.0
    for level in _LEVELS:
        gains = {
            kind: [gain if sure >= level else 0.0 for of, sure, gain in asked if of == kind] for kind in kinds
        }
        mean = fmean(fmean(gains[kind]) for kind in kinds)
        if mean >= most and not any(_surely_below_0(gains[kind]) for kind in kinds):
            best, most = level, mean
    return best


def _surely_below_0(gains: Sequence[float]) -> bool:
    if len(gains) < 2:
        return False
    reach = float(stats.t.ppf((1 + _CONFIDENCE) / 2, len(gains) - 1)) * float(stats.sem(gains))
    return fmean(gains) + reach < 0


def _judged(one: Sample, sentences: Sequence[Mapping[str, Any]], signs: Signs, gain: float | None) -> Judged:
    return Judged(one.kind, signs, _first_is_evidence(one, sentences), gain)


def _by_chance(
    one: Sample, sentences: Sequence[Mapping[str, Any]], config: QGPMConfig, draw: torch.Generator
) -> list[Judged]:
    z = torch.tensor([sentence["z"] for sentence in sentences], dtype=torch.float64)
    spans = [(sentence["start"], sentence["end"]) for sentence in sentences]
    heads = Reading("heads", z, 0.0)
    found = []
    for name in ("heads", "embedding") * NOISE:
        noise = Reading(name, standardise(torch.randn(len(z), 1, generator=draw)), 0.0)
        groups = [[noise]] if name == "heads" else [[noise], [heads, noise]]
        for readings in groups:
            choice = Choice(tuple((reading.source, 1.0) for reading in readings))
            fused = fuse(readings, choice)
            signs = Signs.of(readings, fused, spans, config.k_sharp)
            ranked = [
                {**sentence, "rank": 0 if value == fused.max() else 1}
                for sentence, value in zip(sentences, fused, strict=True)
            ]
            found.append(_judged(one, ranked, signs, None))
    return found


def _first_is_evidence(one: Sample, sentences: Sequence[Mapping[str, Any]]) -> bool:
    first = next(sentence for sentence in sentences if sentence["rank"] == 0)
    text = first["text"].strip()
    return any(passage in text or text in passage for passage in one.evidence)
