"""What was done for recent requests."""

import time
from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, Literal

import torch

from positional.coordinates import SentenceScores
from positional.guard import Verdict
from positional.relevance import rank
from server.locate import Sentence

Mode = Literal["plain", "qgpm", "evidence"]
Relevance = Literal["none", "heads", "lexical", "embedding", "caller", "fused"]
Outcome = Literal["running", "success", "aborted", "error", "rejected"]
Stage = Literal["locate", "score", "collect", "maps", "answer", "first_token", "total"]

KEPT = 1000
_TOP = 10


@dataclass(slots=True)
class PromptRecord:
    """What was done for one prompt of a request, written while it runs.

    `arrival` in seconds since the epoch; `began` is that moment by the monotonic clock, which counts
    `seconds`: from the arrival for first_token and total, else are the stage's own: `collect`,
    reading the relevance in the worker, is a part of `score`; `answer` lasts until the first token. `memo`:
    relevance was remembered, so there was no score pass. `profile`: digest of the RoPE profile, and the
    generation of the server's default that it follows (None: the request's own). `relevance`: where it came
    from, also where the answer was plain in spite of it; `ranking`: what each source of it took; `guard`:
    whether it was trusted. `rebuilt`: how often the answer went on under a new default; `not_rebuilt`: why
    it did not.
    """

    arrival: float
    prompt_tokens: int
    began: float = field(default_factory=time.monotonic)
    mode: Mode = "plain"
    reason: str | None = None
    sentences: int | None = None
    protected_prefix: int | None = None
    top: list[dict[str, Any]] = field(default_factory=list)
    seconds: dict[Stage, float] = field(default_factory=dict)
    relevance: Relevance = "none"
    ranking: dict[str, Any] | None = None
    guard: Verdict | None = None
    memo: bool = False
    profile: dict[str, Any] = field(default_factory=dict)
    rebuilt: int = 0
    not_rebuilt: str | None = None
    score_cached: int | None = None
    answer_cached: int | None = None
    output_tokens: int = 0
    outcome: Outcome = "running"

    @property
    def remembered(self) -> Literal["hit", "miss", "none"]:
        """Whether the memo knew the relevance that heads give."""
        if self.memo:
            return "hit"
        return "none" if self.score_cached is None else "miss"

    def since_arrival(self) -> float:
        """Seconds since the request arrived."""
        return time.monotonic() - self.began

    def tokens(self) -> dict[str, int | None]:
        """How many tokens there were, and how many of the prompt each pass found in the cache."""
        return {
            "prompt": self.prompt_tokens,
            "score_cached": self.score_cached,
            "answer_cached": self.answer_cached,
            "output": self.output_tokens,
        }

    def choose(
        self, relevance: Sequence[float] | torch.Tensor, scores: SentenceScores, sentences: Sequence[Sentence]
    ) -> None:
        """Note the protected prefix and the most relevant sentences."""
        self.protected_prefix = min(scores.protected_until)
        rows = sentence_rows(relevance, scores, sentences)
        self.top = sorted(rows, key=lambda row: row["rank"])[:_TOP]

    def describe(self) -> dict[str, Any]:
        """JSON for `GET /v1/requests/{id}`."""
        reason = {} if self.reason is None else {"reason": self.reason}
        kept = {} if self.not_rebuilt is None else {"not_rebuilt": self.not_rebuilt}
        return {
            "mode": self.mode,
            **reason,
            "sentences": self.sentences,
            "protected_prefix": self.protected_prefix,
            "top": self.top,
            "seconds": self.seconds,
            "relevance": self.ranking,
            "guard": None if self.guard is None else asdict(self.guard),
            "memo": self.memo,
            "profile": self.profile,
            "rebuilt": self.rebuilt,
            **kept,
            "tokens": self.tokens(),
            "outcome": self.outcome,
        }


def sentence_rows(
    relevance: Sequence[float] | torch.Tensor, scores: SentenceScores, sentences: Sequence[Sentence]
) -> list[dict[str, Any]]:
    """Each sentence's token offsets, rank, z and scores of both maps (before protection)."""
    z = torch.as_tensor(relevance, dtype=torch.float64)
    ranks = rank(z).tolist()
    broad, sharp = (values.tolist() for values in scores.scores)
    return [
        {
            "start": sentence.start,
            "end": sentence.end,
            "rank": ranks[i],
            "z": float(z[i]),
            "broad": broad[i],
            "sharp": sharp[i],
        }
        for i, sentence in enumerate(sentences)
    ]


def all_relevant(num_sentences: int) -> SentenceScores:
    """The scores of sentences that nothing tells apart: 1 in both maps."""
    ones = torch.ones(num_sentences, dtype=torch.float64)
    return SentenceScores((ones, ones), (0, 0))


class RecordStore:
    """The records of the last requests, by the id of their OpenAI response."""

    def __init__(self, kept: int = KEPT) -> None:
        self._kept = kept
        self._records: OrderedDict[str, list[PromptRecord]] = OrderedDict()

    def add(self, request_id: str, record: PromptRecord, first: bool = True) -> None:
        """Keep the record of a request's first or another prompt.

        A request whose caller gave it the id of an earlier one takes its place; where there are too many, the
        oldest goes.
        """
        if first:
            self._records.pop(request_id, None)
        self._records.setdefault(request_id, []).append(record)
        while len(self._records) > self._kept:
            self._records.popitem(last=False)

    def describe(self, request_id: str) -> dict[str, Any] | None:
        """JSON of a request, with `prompts` where its body held several; None for an unknown id."""
        records = self._records.get(request_id)
        if records is None:
            return None
        if len(records) == 1:
            return {"id": request_id, **records[0].describe()}
        return {"id": request_id, "prompts": [record.describe() for record in records]}
