"""QGPM: from sentences ranked by relevance to coordinates (QGPM paper, sections 4.2 to 4.4)."""

import math
import sys
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from typing import Any, Literal

import torch

from positional.coordinates import Coordinates, SentenceScores
from positional.modulation import Modulation
from positional.profile import Profile
from positional.relevance import rank

Ablation = Literal["no_prefix", "one_map", "keep_last", "keep_starts"]
"""A part that is left out, to measure what it does: the protected prefix, or the broad map; or one that is
put in: the sentences of the last `KEPT_TOKENS`, or the first token of each, have a score of 1.
"""
KEPT_TOKENS = 64


class QGPMError(ValueError):
    """A setting out of its range: the field, the value and the limit."""

    def __init__(self, field: str, value: object, limit: str) -> None:
        self.field = field
        self.value = value
        self.limit = limit
        super().__init__(f"{field} {limit} (got {value!r})")


class NothingToModulate(Exception):  # noqa: N818  (a finding, not a fault)
    """The relevance tells no sentence from another; `reason` is `too_few_sentences` or `equal_relevance`."""

    def __init__(self, reason: str) -> None:
        self.reason = reason
        super().__init__(reason)


def _check(
    name: str,
    value: object,
    *,
    limit: str,
    whole: bool = False,
    low: float = -math.inf,
    above: float = -math.inf,
    high: float = math.inf,
    below: float = math.inf,
) -> None:
    if isinstance(value, bool) or not isinstance(value, int if whole else int | float):
        raise QGPMError(name, value, limit)
    # Not math.isfinite: a whole number may be too large to become a float.
    finite = whole or abs(value) <= sys.float_info.max
    if not (finite and low <= value <= high and above < value < below):
        raise QGPMError(name, value, limit)


@dataclass(frozen=True, slots=True)
class QGPMConfig:
    """QGPM's settings (paper, appendix C); raises QGPMError for one out of range.

    (`k_broad`, `t_broad`), (`k_sharp`, `t_sharp`): centre and temperature of each map (eq. 6);
    `score_low`: score of the least relevant sentence; `stride_floor`: ε; `anchor_ratio`: c of L_a = c·L;
    `gate_width`: τ_m in planes (eq. 7).
    """

    k_broad: int
    t_broad: float
    k_sharp: int
    t_sharp: float
    score_low: float
    stride_floor: float
    anchor_ratio: float
    gate_width: float

    def __post_init__(self) -> None:
        for name in ("k_broad", "k_sharp"):
            _check(name, getattr(self, name), whole=True, low=1, limit="must be a whole number of at least 1")
        for name in ("t_broad", "t_sharp"):
            _check(name, getattr(self, name), low=0, limit="must be a number of at least 0")
        _check("score_low", self.score_low, low=0, below=1, limit="must lie in [0, 1)")
        _check("stride_floor", self.stride_floor, above=0, high=1, limit="must lie in (0, 1]")
        for name in ("anchor_ratio", "gate_width"):
            _check(name, getattr(self, name), above=0, limit="must be a number above 0")
        if self.k_broad <= self.k_sharp:
            raise QGPMError("k_broad", self.k_broad, f"must be greater than k_sharp ({self.k_sharp})")

    def resolve(self, overrides: Mapping[str, object]) -> "QGPMConfig":
        """These settings with a caller's in place; None means unset.

        Where only one of k_broad and k_sharp is set, the other moves along, so that k_broad stays greater.
        Raises QGPMError, naming the field, for a setting out of range or of an unknown name.
        """
        names = {field.name for field in fields(QGPMConfig)}
        for name, value in overrides.items():
            if name not in names:
                raise QGPMError(name, value, "is not a setting of QGPM")
        given = {name: value for name, value in overrides.items() if value is not None}
        k_broad, k_sharp = given.get("k_broad"), given.get("k_sharp")
        if isinstance(k_sharp, int) and k_broad is None:
            given["k_broad"] = max(self.k_broad, k_sharp + 1)
        elif isinstance(k_broad, int) and k_sharp is None:
            given["k_sharp"] = min(self.k_sharp, max(k_broad - 1, 1))
        settings: dict[str, Any] = asdict(self) | given
        return QGPMConfig(**settings)


PACKAGE_DEFAULTS = QGPMConfig(
    k_broad=12,
    t_broad=2.0,
    k_sharp=6,
    t_sharp=0.5,
    score_low=0.3,
    stride_floor=0.1,
    anchor_ratio=0.1,
    gate_width=0.5,
)


def sentence_scores(relevance: torch.Tensor, k: int, temperature: float, score_low: float) -> torch.Tensor:
    """s_i of eq. 6, float64 [sentences], from `relevance` z [sentences].

    T = 0 is a hard cut after K sentences. Where the sigmoids leave all sentences alike, every score is 1.
    """
    ranks = rank(relevance).double()
    # Beyond any number of sentences a centre changes nothing, and a float64 would lose the ranks.
    centre = min(k, 2**50) - 0.5
    shaped = (
        (ranks < centre).double()
        if temperature == 0
        else torch.sigmoid((centre - ranks) / float(temperature))
    )
    spread = shaped.max() - shaped.min()
    rescaled = (shaped - shaped.min()) / spread if spread > 0 else torch.ones_like(shaped)
    return score_low + (1 - score_low) * rescaled


def keep_neighbours(scores: torch.Tensor, count: int, score_low: float) -> torch.Tensor:
    """`scores` [sentences], of which `count` on both sides of a relevant one have at least its own.

    A pronoun speaks of whom the sentence before names. Relevant: a score of at least (1 + s_low)/2.
    """
    if count == 0:
        return scores
    count = min(count, len(scores))
    relevant = torch.where(_relevant(scores, score_low), scores, 0.0)
    around = torch.nn.functional.max_pool1d(relevant[None], 2 * count + 1, stride=1, padding=count)[0]
    return torch.maximum(scores, around)


def check_differs(z: torch.Tensor) -> None:
    """Raise NothingToModulate where z [sentences] tells no sentence from another."""
    if len(z) < 2:
        raise NothingToModulate("too_few_sentences")
    if bool((z == z[0]).all()):
        raise NothingToModulate("equal_relevance")


def build_modulation(
    relevance: Sequence[float] | torch.Tensor,
    spans: Sequence[tuple[int, int]],
    num_tokens: int,
    config: QGPMConfig,
    ablation: Ablation | None = None,
    neighbours: int = 0,
) -> tuple[Modulation, SentenceScores]:
    """The segments of a prompt of `num_tokens` whose sentences hold tokens `spans` and have relevance z.

    Tokens outside the sentences, and each map's context before its first relevant sentence (score of at
    least (1 + s_low)/2), have a score of 1. Without the broad map, all layers go by the sharp one. So many
    `neighbours` on both sides of a relevant sentence are kept with it. Raises NothingToModulate.
    """
    z = torch.as_tensor(relevance, dtype=torch.float64)
    check_differs(z)
    sharp_map = (config.k_sharp, config.t_sharp)
    maps = (sharp_map if ablation == "one_map" else (config.k_broad, config.t_broad), sharp_map)
    broad, sharp = (
        keep_neighbours(sentence_scores(z, k, t, config.score_low), neighbours, config.score_low)
        for k, t in maps
    )
    if ablation == "no_prefix":
        protected = [0, 0]
    else:
        protected = [_protected_until(scores, spans, config.score_low) for scores in (broad, sharp)]
    kept_from = spans[-1][1] - KEPT_TOKENS if ablation == "keep_last" else num_tokens
    segments = [(0, 1.0, 1.0)]
    for (start, end), b, s in zip(spans, broad.tolist(), sharp.tolist(), strict=True):
        if segments[-1][0] == start:
            segments.pop()
        kept = [start < until or end > kept_from for until in protected]
        b, s = (1.0 if kept[0] else b), (1.0 if kept[1] else s)
        if ablation == "keep_starts" and end - start > 1:
            segments += [(start, 1.0, 1.0), (start + 1, b, s), (end, 1.0, 1.0)]
        else:
            segments += [(start, b, s), (end, 1.0, 1.0)]
    anchor_length = min(config.anchor_ratio * num_tokens, sys.float_info.max)
    modulation = Modulation.of_segments(
        segments, anchor_length, float(config.gate_width), config.stride_floor
    )
    return modulation, SentenceScores((broad, sharp), (protected[0], protected[1]))


def build_coordinates(
    relevance: Sequence[float] | torch.Tensor,
    spans: Sequence[tuple[int, int]],
    num_tokens: int,
    profile: Profile,
    config: QGPMConfig,
) -> Coordinates:
    """Coordinates of a prompt under a profile; arguments and errors as `build_modulation`'s."""
    modulation, scores = build_modulation(relevance, spans, num_tokens, config)
    return Coordinates.from_modulation(modulation, profile, scores)


def _protected_until(scores: torch.Tensor, spans: Sequence[tuple[int, int]], score_low: float) -> int:
    first = torch.nonzero(_relevant(scores, score_low))[0]
    return int(spans[int(first)][0])


def _relevant(scores: torch.Tensor, score_low: float) -> torch.Tensor:
    return scores >= (1 + score_low) / 2
