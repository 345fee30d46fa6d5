"""The guard's calibration: when is all evidence among what relevance keeps, when does that pay, and by whom?

Samples of the tuning split are ranked by every source that the server has, and by fusions of them; beside
them stand random rankings, alone and fused with others, which a guard has to tell from those. What pays
best under the guard becomes the default.
"""

import asyncio
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import astuple, dataclass, replace
from statistics import fmean
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from scipy import optimize, special
from tqdm import tqdm

from positional.evidence_count import widened
from positional.guard import SIGNS, SOFT_SHARE, Guard, Signs
from positional.qgpm import QGPMConfig
from positional.relevance import rank, standardise, unity
from positional.sources.contract import Asked as Texts
from positional.sources.contract import Reading
from positional.sources.fusion import Choice, equal, fuse
from positional.sources.lexical import LexicalSource
from server.likelihood import Gold
from server.locate import unmarked
from server.relevance_choice import HEADS
from server.samples import KINDS, Sample
from server.tune_clock import BAR, Clock
from server.tune_held_out import FIRST_BLOCK, MOST_BLOCKS, bounds
from server.tune_measure import Asked, Measure, with_heads
from server.tune_weights import Told, weighed

Numbers = npt.NDArray[np.float64]

LEXICAL, FUSED = equal("lexical"), equal("heads", "lexical")
EMBEDDING = (equal("embedding"), equal("lexical", "embedding"), equal("heads", "lexical", "embedding"))
"""What is judged too where the server has embeddings; it cannot be the default, so its gain is not asked."""

FEWEST_BLOCKS = 3
"""Fewer say too little."""
WEIGHING_SHARE = 0.15
"""Of the calibration's time: what the weights of the fusion may take."""
_PENALTY = 0.0001
"""On the squares of weights, in units of the mean log-likelihood."""
_CHANCE = 0.05
"""At most this share of random rankings may modulate."""
_NOISE = 0.05
"""Nats: where plain answers are sure, any modulation loses a little, which changes no answer."""
_LEVELS = tuple(round(0.05 * step, 2) for step in range(1, 20))


@dataclass(frozen=True, slots=True)
class Judged:
    """A ranking of one sample's sentences, its signs, and whether all evidence is among what is kept by it.

    `choice`: who ranked, and `gain`: what full modulation by it adds to the answer's log-probability, in
    nats; None where nobody asked. `by_chance`: whether nothing but chance ranked. `sample`: which one it is.
    """

    kind: str
    signs: Signs
    right: bool
    gain: float | None
    choice: Choice | None = None
    by_chance: bool = False
    sample: int = 0


@dataclass(frozen=True, slots=True)
class Found:
    """A guard, and the sources that pay best under it."""

    guard: Guard
    relevance: Choice


def find(
    told: Callable[[int], list[Told]], rankings: Callable[[int, Choice], list[Judged]], clock: Clock
) -> Found | None:
    """What blocks calibrate before the clock's end; None where too few fit.

    `told`: of block 0, 1, …, what heads and words say; `rankings`: all, with the fusion of these two.
    """
    samples: list[Told] = []
    judged: list[Judged] = []
    asked = blocks = 0
    total = round(clock.left)
    kept_back = (1 - WEIGHING_SHARE) * clock.left
    with tqdm(desc="guard", total=total, bar_format=BAR) as bar:

        @contextmanager
        def step() -> Iterator[None]:
            with clock.step():
                yield
            bar.update(total - round(clock.left) - bar.n)

        while clock.allows(1, kept_back):
            with step():
                samples += told(asked)
            asked += 1
        fusion = weighed(FUSED.sources, samples) if samples else FUSED
        while clock.allows(1):
            with step():
                judged += rankings(blocks, fusion)
            blocks += 1
            bar.set_postfix_str(f"{len(judged)} rankings", refresh=False)
    if blocks < FEWEST_BLOCKS or not judged:
        return None
    return calibrated(judged, (LEXICAL, HEADS, fusion))


@dataclass(slots=True)
class Rankings:
    """Asks a server to rank blocks of samples that serve nothing else, nor both of its methods.

    `config`: the settings under which they are modulated. `embeds`: whether the server has embeddings.
    """

    measure: Measure
    config: QGPMConfig
    embeds: bool

    async def told(self, number: int) -> list[Told]:
        """What heads and words say of each sample of block `number`, from 0; raises LikelihoodError."""
        found = await asyncio.gather(*map(self._told, self.measure.samples(_number(2 * number + 1))))
        return [told for told in found if told.evidence]

    async def judged(self, number: int, fusion: Choice) -> list[Judged]:
        """Each sample of block `number` ranked by every choice, and by chance; raises LikelihoodError."""
        number = _number(2 * number)
        block = await self.measure.block(number)
        choices = (HEADS, LEXICAL, fusion, *(EMBEDDING if self.embeds else ()))
        parts = zip(block.samples, block.golds, block.plain, strict=True)
        found = await asyncio.gather(
            *(
                judge(self.measure.asked, one, golds, plain, self.config, choices, number * len(KINDS) + at)
                for at, (one, golds, plain) in enumerate(parts)
            )
        )
        return [ranking for one in found for ranking in one]

    async def _told(self, one: Sample) -> Told:
        heads, words = [
            await self.measure.asked.relevance(one, _field(self.config, one, choice))
            for choice in (HEADS, LEXICAL)
        ]
        return Told({"heads": _z(heads), "lexical": _z(words)}, _evidence(one, heads))


async def judge(
    asked: Asked,
    one: Sample,
    golds: Sequence[Gold],
    plain: float,
    config: QGPMConfig,
    choices: Sequence[Choice],
    number: int,
) -> list[Judged]:
    """Sample `number` ranked by every choice, and by chance; raises LikelihoodError.

    `plain`: the log-probability of its answers (nats).
    """
    found: list[Judged] = []
    for choice in choices:
        field = _field(config, one, choice)
        told = await asked.relevance(one, field)
        if "guard" not in told:  # it tells no sentence from another, so nothing is modulated
            continue
        gain = None if choice in EMBEDDING else await asked.logprob(one, golds, field) - plain
        signs, right = Signs(**told["guard"]["signs"]), _keeps(config, _z(told), _evidence(one, told))
        found.append(Judged(one.kind, signs, right, gain, choice, sample=number))
        if choice == HEADS:
            found += _by_chance(one, told, signs.unity, config, number)
    return found


def calibrated(judged: Sequence[Judged], choices: Sequence[Choice]) -> Found:
    """The guard of these rankings, and which of some choices pays best under it.

    A logistic regression on the signs. A choice's level is that at which samples gain most by it, of those at
    which hardly any random ranking modulates and no kind surely loses more than noise; the highest of all
    where none of these gains. The first choice stays unless another surely gains more: what asks the heads
    costs a pass. The guard's level is the chosen one's, also where a request names other sources.
    """
    signs = np.array([astuple(ranking.signs) for ranking in judged])
    right = np.array([ranking.right for ranking in judged], dtype=float)
    *weights, bias = (round(float(value), 3) for value in _regression(signs, right))
    guard = Guard(tuple(weights), bias, 0.0)
    levels = {choice: _level(guard, judged, choice) for choice in choices}
    gains = {choice: _gains(guard, judged, choice, level) for choice, level in levels.items()}
    first, best = choices[0], max(choices, key=lambda choice: fmean(gains[choice].values()))
    ahead = [gain - gains[first][sample] for sample, gain in gains[best].items()]
    chosen = best if len(ahead) > 1 and bounds(ahead)[1] > 0 else first
    return Found(replace(guard, level=levels[chosen]), chosen)


def _regression(signs: Numbers, right: Numbers) -> Numbers:
    columns = np.column_stack([signs, np.ones(len(signs))])

    def loss(weights: Numbers) -> float:
        logits = columns @ weights
        likelihood = right * special.log_expit(logits) + (1 - right) * special.log_expit(-logits)
        return float(_PENALTY * (weights[:-1] ** 2).sum() - likelihood.mean())

    return np.asarray(optimize.minimize(loss, np.zeros(len(SIGNS) + 1), method="BFGS").x)


def _level(guard: Guard, judged: Sequence[Judged], choice: Choice) -> float:
    kinds = {ranking.sample: ranking.kind for ranking in judged}
    sure = [guard.confidence(ranking.signs) for ranking in judged if ranking.by_chance]
    best, most = _LEVELS[-1], 0.0
    for level in _LEVELS:
        modulated = sum(value >= SOFT_SHARE * level for value in sure)
        gains = _gains(guard, judged, choice, level)
        by_kind: dict[str, list[float]] = {}
        for sample, gain in gains.items():
            by_kind.setdefault(kinds[sample], []).append(gain)
        if modulated > _CHANCE * len(sure) or any(map(_surely_loses, by_kind.values())):
            continue
        if (gained := fmean(map(fmean, by_kind.values()))) > most:
            best, most = level, gained
    return best


def _gains(guard: Guard, judged: Sequence[Judged], choice: Choice, level: float) -> dict[int, float]:
    """What each sample gains by a choice that must be so sure: 0 where it is answered plainly.

    What softer maps gain is not asked; where a ranking is wrong they cost about as much.
    """
    gains = {ranking.sample: 0.0 for ranking in judged}
    for ranking in judged:
        if ranking.choice != choice or ranking.gain is None:
            continue
        if guard.confidence(ranking.signs) >= SOFT_SHARE * level:
            gains[ranking.sample] = ranking.gain
    return gains


def _surely_loses(gains: Sequence[float]) -> bool:
    return len(gains) > 1 and bounds(gains)[2] < -_NOISE


def _by_chance(
    one: Sample, told: Mapping[str, Any], heads_unity: float, config: QGPMConfig, number: int
) -> list[Judged]:
    """Heads that say nothing, and embeddings that say nothing: alone and beside heads, words and both."""
    z, evidence = _z(told), _evidence(one, told)
    spans = [(sentence["start"], sentence["end"]) for sentence in told["sentences"]]
    draw = torch.Generator().manual_seed(number)
    signals = torch.randn(len(z), 3, generator=draw, dtype=torch.float64)
    silent = standardise(signals[:, :2])
    noise = Reading("embedding", standardise(signals[:, 2:]), 0.0)
    heads = Reading("heads", z, 0.0, unity=heads_unity)
    words = LexicalSource().read_here(_texts(one, told))
    found = []
    for readings in (
        [Reading("heads", silent, 0.0, unity=unity(signals[:, :2], silent))],
        [noise],
        [heads, noise],
        [words, noise],
        [heads, words, noise],
    ):
        fused = fuse(readings, equal(*(reading.source for reading in readings)))
        signs = Signs.of(readings, fused, spans, config.k_sharp)
        right, by_chance = _keeps(config, fused, evidence), len(readings) == 1
        found.append(Judged(one.kind, signs, right, None, by_chance=by_chance, sample=number))
    return found


def _number(block: int) -> int:
    return block + FIRST_BLOCK + MOST_BLOCKS


def _field(config: QGPMConfig, one: Sample, choice: Choice) -> dict[str, Any]:
    return {**with_heads(config, one), "relevance": dict(choice.weights), "guard": 0}


def _texts(one: Sample, told: Mapping[str, Any]) -> Texts:
    """What the server asks its sources about a sample."""
    sentences = tuple(sentence["text"] for sentence in told["sentences"])
    return Texts(sentences, unmarked(one.question))


def _z(told: Mapping[str, Any]) -> torch.Tensor:
    return torch.tensor([sentence["z"] for sentence in told["sentences"]], dtype=torch.float64)


def _evidence(one: Sample, told: Mapping[str, Any]) -> frozenset[int]:
    """The sentences that hold evidence, or a part of it."""
    texts = [sentence["text"].strip() for sentence in told["sentences"]]
    holding = (
        at
        for at, text in enumerate(texts)
        if any(passage in text or text in passage for passage in one.evidence)
    )
    return frozenset(holding)


def _keeps(config: QGPMConfig, z: torch.Tensor, evidence: frozenset[int]) -> bool:
    """Whether all the evidence is among the K_s sentences that come first."""
    kept = rank(z) < widened(config, z).k_sharp
    return bool(evidence) and bool(kept[list(evidence)].all())
