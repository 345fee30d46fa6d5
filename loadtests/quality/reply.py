"""What one method makes of one sample, whoever was asked."""

from collections.abc import Sequence
from dataclasses import dataclass

from loadtests.quality.grading import share_found
from loadtests.quality.observations import Key, Observation
from server.likelihood import Gold
from server.samples import Sample

ANSWER_TOKENS = 40
"""The longest greedy answer; the gold ones take at most 30 tokens."""

SHOWN = 80
"""Characters of an output that are kept."""


@dataclass(frozen=True, slots=True)
class Reply:
    """The greedy `output` and how likely the gold answers are; the fields are those of an `Observation`."""

    output: str
    logprob: float
    prompt_tokens: int
    mode: str
    cached_tokens: int = 0
    reason: str | None = None
    evidence_rank: int | None = None
    confidence: float | None = None

    def observation(self, sample: Sample, key: Key, forced: Sequence[Gold], seconds: float) -> Observation:
        """The line of a result file; `forced`: the gold answers."""
        return Observation(
            task=key.task,
            length=key.length,
            number=key.number,
            depth=sample.depth,
            method=key.method,
            logprob=self.logprob,
            tokens=sum(gold.counted for gold in forced),
            correct=share_found(self.output, sample.answers),
            output=self.output[:SHOWN],
            prompt_tokens=self.prompt_tokens,
            cached_tokens=self.cached_tokens,
            mode=self.mode,
            reason=self.reason,
            evidence_rank=self.evidence_rank,
            confidence=self.confidence,
            seconds=round(seconds, 3),
        )
