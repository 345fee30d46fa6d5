"""The guard's calibration: when are the sentences that relevance puts first evidence, and when does that pay?

Samples of the tuning split are ranked by every source that the server has, and by fusions of them; beside
them stand random rankings, alone and fused with the heads', which a guard has to tell from others.
"""

import asyncio
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import astuple, dataclass
from statistics import fmean
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from scipy import optimize, special
from tqdm import tqdm

from positional.guard import SIGNS, SOFT_SHARE, Guard, Signs
from positional.qgpm import QGPMConfig
from positional.relevance import standardise, unity
from positional.sources.contract import Reading, SourceName
from positional.sources.fusion import Choice, fuse
from server.likelihood import Gold
from server.samples import Sample
from server.tune_clock import BAR, Clock
from server.tune_held_out import FIRST_BLOCK, MOST_BLOCKS, bounds
from server.tune_measure import Asked, Measure, with_heads

Sources = tuple[SourceName, ...]
Numbers = npt.NDArray[np.float64]

CHOICES: tuple[Sources, ...] = (("heads",), ("lexical",), ("heads", "lexical"))
WITH_EMBEDDING: tuple[Sources, ...] = (
    *CHOICES,
    ("embedding",),
    ("lexical", "embedding"),
    ("heads", "lexical", "embedding"),
)
"""What is calibrated where the server has embeddings."""

FEWEST_BLOCKS = 3
"""Fewer say too little."""
_PENALTY = 0.001
"""On the squares of weights, in units of the mean log-likelihood."""
_CHANCE = 0.05
"""At most this share of random rankings may modulate."""
_NOISE = 0.05
"""Nats: where plain answers are sure, any modulation loses a little, which changes no answer."""
_LEVELS = tuple(round(0.05 * step, 2) for step in range(1, 20))


@dataclass(frozen=True, slots=True)
class Judged:
    """A ranking of one sample's sentences, its signs, and whether the first is evidence.

    `gain`: what full modulation by it adds to the answer's log-probability, in nats; None where nobody asked.
    `by_chance`: whether nothing but chance ranked.
    """

    kind: str
    signs: Signs
    right: bool
    gain: float | None
    by_chance: bool = False


def find(rankings: Callable[[int], list[Judged]], clock: Clock) -> Guard | None:
    """The guard that the `rankings` of blocks calibrate before the clock's end; None where too few fit."""
    judged: list[Judged] = []
    blocks, total = 0, round(clock.left)
    with tqdm(desc="guard", total=total, bar_format=BAR) as bar:
        while clock.allows(1):
            with clock.step():
                judged += rankings(blocks)
            blocks += 1
            bar.set_postfix_str(f"{len(judged)} rankings", refresh=False)
            bar.update(total - round(clock.left) - bar.n)
    return calibrated(judged) if blocks >= FEWEST_BLOCKS else None


async def rankings(measure: Measure, config: QGPMConfig, number: int, *, embeds: bool) -> list[Judged]:
    """Of block `number`, from 0, of those that serve nothing else; raises LikelihoodError.

    `embeds`: whether the server has embeddings.
    """
    choices = WITH_EMBEDDING if embeds else CHOICES
    number += FIRST_BLOCK + MOST_BLOCKS
    block = await measure.block(number)
    # Each sample draws by itself: they are answered in any order.
    draws = [
        torch.Generator().manual_seed(number * len(block.samples) + at) for at in range(len(block.samples))
    ]
    parts = zip(block.samples, block.golds, block.plain, draws, strict=True)
    found = await asyncio.gather(
        *(judge(measure.asked, one, golds, plain, config, choices, draw) for one, golds, plain, draw in parts)
    )
    return [ranking for one in found for ranking in one]


async def judge(
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
        field = {**with_heads(config, one), "relevance": list(sources), "guard": 0, "adaptive_k": True}
        told = await asked.relevance(one, field)
        if "guard" not in told:  # it tells no sentence from another, so nothing is modulated
            continue
        gain = await asked.logprob(one, golds, field) - plain
        first = min(told["sentences"], key=lambda sentence: int(sentence["rank"]))
        signs = Signs(**told["guard"]["signs"])
        found.append(Judged(one.kind, signs, _holds_evidence(one, first), gain))
        if sources == ("heads",):
            found += _by_chance(one, told["sentences"], signs.unity, config, draw)
    return found


def calibrated(judged: Sequence[Judged]) -> Guard:
    """The guard of these rankings: a logistic regression on their signs, and a level of confidence.

    The level is that of most gain, over kinds of questions, of those at which hardly any random ranking
    modulates and no kind surely loses more than noise; the highest of all where there is none.
    """
    signs = np.array([astuple(ranking.signs) for ranking in judged])
    right = np.array([ranking.right for ranking in judged], dtype=float)
    *weights, bias = (round(float(value), 3) for value in _regression(signs, right))
    guard = Guard(tuple(weights), bias, 0.0)
    return Guard(guard.weights, bias, _level(guard, judged))


def _regression(signs: Numbers, right: Numbers) -> Numbers:
    columns = np.column_stack([signs, np.ones(len(signs))])

    def loss(weights: Numbers) -> float:
        logits = columns @ weights
        likelihood = right * special.log_expit(logits) + (1 - right) * special.log_expit(-logits)
        return float(_PENALTY * (weights[:-1] ** 2).sum() - likelihood.mean())

    return np.asarray(optimize.minimize(loss, np.zeros(len(SIGNS) + 1), method="BFGS").x)


def _level(guard: Guard, judged: Sequence[Judged]) -> float:
    sure = np.array([guard.confidence(ranking.signs) for ranking in judged])
    by_chance = np.array([ranking.by_chance for ranking in judged])
    gains: dict[str, list[tuple[float, float]]] = {}
    for value, ranking in zip(sure, judged, strict=True):
        if ranking.gain is not None:
            gains.setdefault(ranking.kind, []).append((value, ranking.gain))
    best, most = _LEVELS[-1], -math.inf
    for level in _LEVELS:
        kinds = [[gain if value >= level else 0.0 for value, gain in kind] for kind in gains.values()]
        modulated = int((sure[by_chance] >= SOFT_SHARE * level).sum())
        if modulated > _CHANCE * by_chance.sum() or any(map(_surely_loses, kinds)):
            continue
        gained = fmean(map(fmean, kinds)) if kinds else 0.0
        if gained > most:
            best, most = level, gained
    return best


def _surely_loses(gains: Sequence[float]) -> bool:
    return len(gains) > 1 and bounds(gains)[2] < -_NOISE


def _by_chance(
    one: Sample,
    sentences: Sequence[Mapping[str, Any]],
    heads_unity: float,
    config: QGPMConfig,
    draw: torch.Generator,
) -> list[Judged]:
    """Two heads that say nothing, embeddings that say nothing, and these beside the model's own heads."""
    z = torch.tensor([sentence["z"] for sentence in sentences], dtype=torch.float64)
    spans = [(sentence["start"], sentence["end"]) for sentence in sentences]
    signals = torch.randn(len(z), 3, generator=draw, dtype=torch.float64)
    silent = standardise(signals[:, :2])
    noise = Reading("embedding", standardise(signals[:, 2:]), 0.0)
    heads = Reading("heads", z, 0.0, unity=heads_unity)
    found = []
    for readings in (
        [Reading("heads", silent, 0.0, unity=unity(signals[:, :2], silent))],
        [noise],
        [heads, noise],
    ):
        fused = fuse(readings, Choice(tuple((reading.source, 1.0) for reading in readings)))
        signs = Signs.of(readings, fused, spans, config.k_sharp)
        right = _holds_evidence(one, sentences[int(fused.argmax())])
        found.append(Judged(one.kind, signs, right, None, by_chance=heads not in readings))
    return found


def _holds_evidence(one: Sample, sentence: Mapping[str, Any]) -> bool:
    text = sentence["text"].strip()
    return any(passage in text or text in passage for passage in one.evidence)
