"""The search of `ropeway tune`: drawn candidates, of which few samples drop the poor ones.

Samples come in blocks, one of every kind. Candidates come in generations, which are halved successively: all
are measured on two blocks, the better half on two more, of these the better half on four more. All meet the
same blocks in the same order, so they are compared in pairs. Optuna draws each generation from what was
measured of those before (a tree-structured Parzen estimator). Its own pruner is not used: it judges a
candidate against those that happened to come before, which on so few samples drops good ones.

The best of so many, on so few samples, are so by luck too: a race on further blocks finds the best of them.
"""

import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import pairwise
from statistics import fmean

import optuna
from optuna.exceptions import ExperimentalWarning
from optuna.samplers import TPESampler
from optuna.trial import Trial, TrialState

from positional.qgpm import QGPMConfig

RUNGS = (2, 4, 8)
"""How many blocks a candidate has passed when its generation is halved."""
BLOCKS = RUNGS[-1]
GENERATION = 12
RACERS = 8
RACE = (16, 32, 64)
"""How many blocks a racer has passed when the racers are halved."""
SEARCHED = RACE[-1]
"""Blocks from this number on are met by no search."""

# Name: lowest, highest. K_b is drawn as its distance to K_s, above which it has to lie.
# Beyond any number of sentences: the broad map may keep them all.
_WHOLE = {"k_sharp": (1, 16), "k_beyond": (1, 1024)}
_LOGARITHMIC = {
    "t_broad": (0.1, 8.0),
    "t_sharp": (0.1, 8.0),
    "stride_floor": (0.02, 0.9),
    "anchor_ratio": (0.01, 1.0),
    "gate_width": (0.1, 4.0),
}
_LINEAR = {"score_low": (0.0, 0.98)}
_DIGITS = 3


@dataclass(frozen=True, slots=True)
class BlockGain:
    """What a candidate adds to the answers' log-probability on one block: means over its samples, in nats.

    `evidence`: with gold evidence; `heads`: with the head profile's relevance, under the guard's default.
    """

    evidence: float
    heads: float

    @property
    def total(self) -> float:
        """What is searched for."""
        return self.evidence + self.heads


Objective = Callable[[QGPMConfig, int], BlockGain]
"""The gain of a candidate on the block of a number."""


@dataclass(slots=True)
class Candidate:
    """Settings and their gain on the first blocks, as many as they were let pass."""

    config: QGPMConfig
    gains: list[BlockGain] = field(default_factory=list)

    @property
    def mean(self) -> float:
        """The mean gain, in nats."""
        return fmean(gain.total for gain in self.gains)


@dataclass(slots=True)
class Search:
    """All candidates that were measured, in the order of their drawing; grows while the search runs."""

    candidates: list[Candidate] = field(default_factory=list)

    @property
    def best(self) -> Candidate | None:
        """The best of those that passed most blocks; None before anything was measured."""
        return max(self.ranked(), key=lambda candidate: (len(candidate.gains), candidate.mean), default=None)

    def ranked(self) -> list[Candidate]:
        """Those that were measured, by the blocks that they passed, then by their gain, best first."""
        measured = [candidate for candidate in self.candidates if candidate.gains]
        return sorted(measured, key=lambda candidate: (len(candidate.gains), candidate.mean), reverse=True)


def run(
    search: Search,
    objective: Objective,
    starts: Sequence[QGPMConfig],
    seed: int,
    goes_on: Callable[[], bool],
) -> None:
    """Fills `search` while `goes_on`, asked before every block, says so; `starts` are measured first.

    The same seed and the same gains give the same candidates.
    """
    study = _study(seed)
    for start in starts:
        study.enqueue_trial(_parameters(start))
    while goes_on():
        trials = [study.ask() for _ in range(GENERATION)]
        generation = []
        for trial in trials:
            drawn = _drawn(trial)
            config = starts[trial.number] if trial.number < len(starts) else drawn
            generation.append((Candidate(config), trial))
        search.candidates += [candidate for candidate, _ in generation]
        for rung in RUNGS:
            for candidate, _ in generation:
                for block in range(len(candidate.gains), rung):
                    if not goes_on():
                        return
                    candidate.gains.append(objective(candidate.config, block))
            generation.sort(key=lambda pair: pair[0].mean, reverse=True)
            kept = len(generation) if rung == BLOCKS else len(generation) // 2
            for candidate, trial in generation[kept:]:
                trial.report(candidate.mean, step=rung)
                study.tell(trial, state=TrialState.PRUNED)
            del generation[kept:]
        for candidate, trial in generation:
            study.tell(trial, candidate.mean)


def race(search: Search, objective: Objective, goes_on: Callable[[int], bool]) -> None:
    """The best candidates of a search meet further blocks, and are halved; ends with them, or before.

    `goes_on`: whether there is time for so many gains, asked before every block, which all meet or none.
    """
    racers = [candidate for candidate in search.ranked() if len(candidate.gains) == BLOCKS][:RACERS]
    for start, end in pairwise((BLOCKS, *RACE)):
        for block in range(start, end if racers else start):
            if not goes_on(len(racers)):
                return
            for racer in racers:
                racer.gains.append(objective(racer.config, block))
        racers.sort(key=lambda racer: racer.mean, reverse=True)
        racers = racers[: max(1, len(racers) // 2)]


def _study(seed: int) -> optuna.Study:
    with _quiet():
        return optuna.create_study(
            direction="maximize",
            sampler=TPESampler(
                seed=seed,
                n_startup_trials=GENERATION,
                multivariate=True,  # the settings act together, so they are drawn together
                constant_liar=True,  # those of one generation are not drawn beside each other
            ),
        )


@contextmanager
def _quiet() -> Iterator[None]:
    """Optuna tells each step on standard error, and warns of what is new in it."""
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ExperimentalWarning)
        yield


def _drawn(trial: Trial) -> QGPMConfig:
    whole = {name: trial.suggest_int(name, *span, log=True) for name, span in _WHOLE.items()}
    real = {name: trial.suggest_float(name, *span, log=True) for name, span in _LOGARITHMIC.items()}
    real |= {name: trial.suggest_float(name, *span) for name, span in _LINEAR.items()}
    rounded = {name: float(f"{value:.{_DIGITS}g}") for name, value in real.items()}
    return QGPMConfig(k_sharp=whole["k_sharp"], k_broad=whole["k_sharp"] + whole["k_beyond"], **rounded)


def _parameters(config: QGPMConfig) -> dict[str, float]:
    """The settings in the names that are drawn, moved into the space."""
    values = {"k_beyond": config.k_broad - config.k_sharp}
    spans = _WHOLE | _LOGARITHMIC | _LINEAR
    return {
        name: min(max(values.get(name, getattr(config, name, 0)), low), high)
        for name, (low, high) in spans.items()
    }
