"""Prompts with sentences, evidence and tokens to force, and what the oracle says of them."""

import random
from collections.abc import Sequence
from typing import Any

import pytest
import torch

from cache.extra_args import ScoreTask
from positional.modulation import Modulation
from positional.qgpm import QGPMConfig, build_modulation
from tests.support.asks import Answer, Ask
from tests.support.hybrid_reference import HybridReference
from tests.support.reference import Modulated, Reference

CONFIG = QGPMConfig(3, 0.5, 1, 0.2, 0.3, 0.1, 0.2, 0.5)
TOLERANCE = 1e-3
_VOCABULARY = 500


class Case:
    """A prompt of random tokens with sentences of ten from token `begin` on.

    Sentence `relevant` is the most relevant one, and what stands before it is protected, as the last but one
    and the last come next. The first token of the first sentence and all of the third one are silent.
    """

    def __init__(
        self, seed: int, length: int, *, forced: int = 8, begin: int = 12, relevant: int = 0
    ) -> None:
        generator = random.Random(seed)
        self.prompt = [generator.randrange(3, _VOCABULARY) for _ in range(length)]
        self.forced = [generator.randrange(3, _VOCABULARY) for _ in range(forced)]
        self.spans = [(start, start + 10) for start in range(begin, length - 15, 10)]
        self.relevance = [index / 1000 for index in range(len(self.spans))]
        self.relevance[-2] = 1.0
        self.relevance[relevant] = 2.0

    @property
    def modulation(self) -> Modulation:
        return build_modulation(self.relevance, self.spans, len(self.prompt), CONFIG)[0]

    @property
    def modulated(self) -> Modulated:
        return Modulated(self.relevance, self.spans, len(self.prompt), CONFIG)

    @property
    def task(self) -> ScoreTask:
        length = len(self.prompt)
        silent = [self.spans[0][0], *range(*self.spans[2])]
        return ScoreTask.of([length - 9, *range(length - 4, length)], self.spans, silent)

    def plain(self, **more: Any) -> Ask:
        return Ask(self.prompt, self.forced, **more)

    def moved(self, **more: Any) -> Ask:
        return Ask(self.prompt, self.forced, self.modulation, **more)

    def scored(self, **more: Any) -> Ask:
        return Ask(self.prompt, task=self.task, **more)


class Oracle:
    """Compares answers with the reference."""

    def __init__(self, reference: Reference | HybridReference, heads: Sequence[tuple[int, int]] = ()) -> None:
        self._reference = reference
        self._heads = heads

    def plain(self, case: Case, tolerance: float = TOLERANCE) -> Any:
        """The log-probabilities that a plain answer must have, to be compared with."""
        return _close(self._reference.forced_logprobs(case.prompt, case.forced), tolerance)

    def moved(self, case: Case, tolerance: float = TOLERANCE) -> Any:
        """The log-probabilities that a modulated answer must have, to be compared with."""
        logprobs = self._reference.forced_logprobs(case.prompt, case.forced, case.modulated)
        return _close(logprobs, tolerance)

    def moved_prompt(self, case: Case) -> Any:
        """The log-probabilities of a modulated prompt's own tokens but the first."""
        logprobs = self._reference.forced_logprobs(case.prompt[:1], case.prompt[1:], case.modulated)
        return _close(logprobs, TOLERANCE)

    def hears(self, case: Case, answer: Answer, tolerance: float = TOLERANCE) -> bool:
        """Whether a score pass brought what the heads read; −∞ for the sentence of silent tokens only."""
        assert answer.relevance is not None
        table = torch.tensor(answer.relevance).view(len(case.spans), len(self._heads))
        task = case.task
        _, expected = self._reference.relevance(
            case.prompt, self._heads, task.query_rows.tolist(), case.spans, task.silent.tolist()
        )
        heard = [index for index in range(len(case.spans)) if index != 2]
        return bool(torch.isneginf(table[2]).all()) and torch.allclose(
            table[heard].double(), expected[heard], atol=tolerance
        )


def _close(values: Sequence[float], tolerance: float) -> Any:
    return pytest.approx(tuple(values), abs=tolerance)
