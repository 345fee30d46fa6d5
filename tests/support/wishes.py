"""Requests made up of words, sentences, evidence and a RoPE rule, and where each of their tokens stands."""

import random
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any, Literal

import torch
from hypothesis import strategies as st
from transformers import LlamaConfig

from cache.extra_args import ScoreTask
from positional.coordinates import Coordinates
from positional.modulation import Modulation
from positional.profile import Profile
from positional.qgpm import QGPMConfig, build_modulation
from tests.support.asks import Ask

Pass = Literal["plain", "score", "answer"]
VOCABULARY = 500
BASE = 10_000.0
_HEAD_DIM = 32
_POSITIONS = 8192

SETTINGS = QGPMConfig(
    k_broad=4,
    t_broad=1.0,
    k_sharp=2,
    t_sharp=0.5,
    score_low=0.3,
    stride_floor=0.1,
    anchor_ratio=0.2,
    gate_width=0.5,
)


def words(seed: int, count: int) -> tuple[int, ...]:
    """Token ids made up from a seed."""
    generator = random.Random(seed)
    return tuple(generator.randrange(3, VOCABULARY) for _ in range(count))


@dataclass(frozen=True)
class Rope:
    """A scaling type and its one number: the base for `default`, a factor otherwise."""

    rope_type: str
    number: float

    @property
    def profile(self) -> Profile:
        return _profile(self.rope_type, self.number)


ROPES = {
    "default": (20_000.0, 20_000.5),
    "linear": (2.0, 2.001),
    "dynamic": (4.0, 4.001),
    "yarn": (4.0, 4.001),
    "llama3": (8.0, 8.001),
    "longrope": (2.0, 2.001),
}
"""Scaling types with two numbers each."""


@lru_cache
def _profile(rope_type: str, number: float) -> Profile:
    if rope_type == "default":
        return Profile.rope(number, _HEAD_DIM)
    scaled: dict[str, dict[str, Any]] = {
        "yarn": {"original_max_position_embeddings": 2048},
        "llama3": {
            "original_max_position_embeddings": 2048,
            "low_freq_factor": 1.0,
            "high_freq_factor": 4.0,
        },
        "longrope": {
            "original_max_position_embeddings": 2048,
            "short_factor": [1.0] * (_HEAD_DIM // 2),
            "long_factor": [number + plane / 10 for plane in range(_HEAD_DIM // 2)],
        },
    }
    parameters = {"rope_type": rope_type, "rope_theta": BASE, "factor": number}
    parameters |= scaled.get(rope_type, {})
    config = LlamaConfig(head_dim=_HEAD_DIM, max_position_embeddings=_POSITIONS, rope_parameters=parameters)
    return Profile.from_config(config, max_length=2 * _POSITIONS)


@dataclass(frozen=True)
class Wish:
    """One request in a client's words, and the pass of it that is served.

    `spans`: [start, end) of the document's sentences; `evidence`: their numbers, most relevant first;
    `question`: how many of the prompt's last tokens ask.
    """

    prompt: tuple[int, ...]
    spans: tuple[tuple[int, int], ...]
    evidence: tuple[int, ...]
    question: int
    served: Pass = "answer"
    settings: QGPMConfig = SETTINGS
    rope: Rope | None = None
    salt: str = "tenant"
    forced: tuple[int, ...] = (7, 11)

    @property
    def profile(self) -> Profile | None:
        return None if self.rope is None else self.rope.profile

    @property
    def modulation(self) -> Modulation | None:
        """What an answer pass moves; None for the other passes."""
        if self.served != "answer":
            return None
        relevance = [0.0] * len(self.spans)
        for rank, sentence in enumerate(self.evidence):
            relevance[sentence] = -float(rank)
        return build_modulation(relevance, self.spans, len(self.prompt), self.settings)[0]

    @property
    def first_query_row(self) -> int:
        return len(self.prompt) - self.question

    def ask(self, **more: Any) -> Ask:
        """The request as the engine gets it."""
        task = None
        if self.served == "score":
            task = ScoreTask.of(range(self.first_query_row, len(self.prompt)), self.spans, [])
        carried = {"modulation": self.modulation, "profile": self.profile, "task": task, "salt": self.salt}
        return Ask(self.prompt, self.answered, **{**carried, **more})

    @property
    def answered(self) -> tuple[int, ...]:
        """The tokens that come out; of a score pass it is one."""
        return self.forced[:1] if self.served == "score" else self.forced

    @property
    def computed(self) -> tuple[int, ...]:
        """The tokens whose keys are in the cache at the end: the last one to come out never went in."""
        return self.prompt + self.answered[:-1]

    @property
    def places(self) -> list[Any]:
        """Per computed token, what decides the step that leads to it, beside the profile.

        None: the standard step, in both maps. Otherwise scores and gate, and the floor where it can act.
        """
        modulation = self.modulation
        if modulation is None or modulation.stride_floor == 1:
            return [None] * len(self.computed)
        found: list[Any] = []
        segment = 0
        for token in range(len(self.computed)):
            if segment + 1 < len(modulation.starts) and modulation.starts[segment + 1] == token:
                segment += 1
            scores = (modulation.broad[segment], modulation.sharp[segment])
            floor = modulation.stride_floor if min(scores) < modulation.stride_floor else None
            gate = (modulation.anchor_length, modulation.gate_width)
            found.append(None if token == 0 or scores == (1, 1) else (scores, gate, floor))
        return found

    def angles(self, tokens: int) -> torch.Tensor:
        """Radians float64 [2 maps, tokens, planes] of the first tokens, by the positions themselves."""
        profile = self.profile or Profile.rope(BASE, _HEAD_DIM)
        modulation = self.modulation or Modulation((0,), (1.0,), (1.0,), 1.0, 1.0, 1.0)
        coordinates = Coordinates.from_modulation(modulation, profile)
        positions = (
            coordinates.positions("broad", range(tokens)),
            coordinates.positions("sharp", range(tokens)),
        )
        return torch.stack(positions) * profile.inverse_frequencies


@st.composite
def wishes(draw: st.DrawFn) -> Wish:
    """Requests of up to eight blocks whose document begins anywhere, token 0 included."""
    token = draw(st.sampled_from((0, 0, 1, 12, 31, 32, 40)))
    spans = []
    for length in draw(st.lists(st.integers(1, 40), min_size=2, max_size=8)):
        spans.append((token, token + length))
        token += length
    question = draw(st.integers(1, 40))
    evidence = tuple(draw(st.permutations(range(len(spans)))))
    rope_type = draw(st.sampled_from((None, None, None, *ROPES)))
    settings = replace(
        SETTINGS,
        k_broad=draw(st.sampled_from((4, 30))),
        t_broad=draw(st.sampled_from((0, 1.0))),
        t_sharp=draw(st.sampled_from((0, 0.5))),
        score_low=draw(st.sampled_from((0.05, 0.3))),
        stride_floor=draw(st.sampled_from((0.1, 0.4, 1))),
    )
    return Wish(
        prompt=words(draw(st.integers(0, 2**32)), token + question),
        spans=tuple(spans),
        evidence=evidence,
        question=question,
        served=draw(st.sampled_from(("answer", "answer", "plain", "score"))),
        settings=settings,
        rope=None if rope_type is None else Rope(rope_type, ROPES[rope_type][0]),
    )
