"""The file that a bench left, as far as the report reads it."""

from collections.abc import Mapping
from dataclasses import dataclass

from pydantic import with_config

from loadtests.results.file_format import ONLY_WHAT_IS_READ, Setting


@with_config(ONLY_WHAT_IS_READ)
@dataclass(frozen=True, slots=True)
class Line:
    """A ratio of two times: the median of `count` pairs, its 95 % interval, and each round's median."""

    name: str
    median: float
    low: float
    high: float
    count: int
    promise: str
    verdict: str
    rounds: tuple[float, ...]
    pairs: tuple[tuple[float, float], ...]


@with_config(ONLY_WHAT_IS_READ)
@dataclass(frozen=True, slots=True)
class Shadow:
    """Bytes of the key shadow and of the KV cache beside it."""

    shadow_bytes: int
    cache_bytes: int
    share: float
    verdict: str


@with_config(ONLY_WHAT_IS_READ)
@dataclass(frozen=True, slots=True)
class Coordinates:
    """Bytes that one request's coordinates take in a worker, and its KV cache beside them."""

    tokens: int
    sentences: int
    held_bytes: int
    cache_bytes: int


BySide = Mapping[str, tuple[float, ...]]
"""By server, stock or ropeway: one value each round."""


@with_config(ONLY_WHAT_IS_READ)
@dataclass(frozen=True, slots=True)
class Memory:
    """What requests and whole servers hold."""

    coordinates: tuple[Coordinates, ...]
    resident_bytes: BySide


@with_config(ONLY_WHAT_IS_READ)
@dataclass(frozen=True, slots=True)
class Stage:
    """What one stage of QGPM requests of so many tokens takes on average, and its share of their TTFT."""

    tokens: int
    stage: str
    seconds: float
    share: float
    count: int


@with_config(ONLY_WHAT_IS_READ)
@dataclass(frozen=True, slots=True)
class Bench:
    """Ropeway beside stock vLLM."""

    setting: Setting
    lines: tuple[Line, ...]
    shadow: Shadow | None
    prefix_hit_rate: float
    rounds: tuple[Setting, ...]
    stages: tuple[Stage, ...]
    memory: Memory
    start_seconds: BySide
