"""Relevance of sentences from passages that the caller already knows to matter."""

from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import ClassVar

import torch

from positional.qgpm import QGPMConfig
from positional.sources.contract import Asked, Reading, SourceName
from server.locate import Located, LocateError, Sentence
from server.offsets import TokenizedPrompt

UNSCORED = 1.0
"""The score of a passage that came without one."""

# Of all passages together; each costs a moment. A word of the language, given as a passage, occurs so often.
_MOST_OCCURRENCES = 1_000_000


@dataclass(frozen=True, slots=True)
class EvidenceRelevance:
    """A source of relevance: z of every sentence (float64, no two alike), and how many are evidence."""

    z: tuple[float, ...]
    count: int
    name: ClassVar[SourceName] = "caller"

    async def read(self, asked: Asked) -> Reading:
        """As `Source.read`; the passages were found when the prompt was located."""
        z = torch.tensor(self.z, dtype=torch.float64)
        return Reading(self.name, z, 0.0, {"evidence_sentences": self.count})


def evidence_relevance(
    prompt: TokenizedPrompt, located: Located, passages: Sequence[tuple[str, float | None]]
) -> EvidenceRelevance:
    """Ranks the sentences that hold a passage by score, highest first, then by place; the others behind them.

    Of these the last comes first: whatever K is, those before the evidence are protected or kept with it.
    Every occurrence in the context counts, and of a sentence's passages the one with the highest score. z
    falls with the rank in equal steps, with mean 0 and standard deviation 1. Raises LocateError, naming
    `evidence[i]`, for a passage that no part of the context holds, and for one that occurs too often. The
    paper's Oracle (section 5) marks the evidence's tokens; this marks its sentences.
    """
    places = _Places(prompt.text, located.sentences)
    # Finding a text takes time, so each is looked for once: where it came first, with its highest score.
    texts: dict[str, tuple[int, float]] = {}
    for index, (passage, score) in enumerate(passages):
        first, highest = texts.get(passage, (index, float("-inf")))
        texts[passage] = first, max(highest, UNSCORED if score is None else score)
    scores: dict[int, float] = {}
    for passage, (index, value) in texts.items():
        touched = list(places.touched(passage))
        if places.occurrences > _MOST_OCCURRENCES:
            raise LocateError(
                f"evidence[{index}]",
                f"makes more than {_MOST_OCCURRENCES} occurrences of all passages; give longer ones",
            )
        if not touched:
            raise LocateError(f"evidence[{index}]", "does not occur in the context", passage)
        for sentence in touched:
            scores[sentence] = max(scores.get(sentence, float("-inf")), value)
    count = len(located.sentences)
    others = [index for index in reversed(range(count)) if index not in scores]
    order = [*sorted(scores, key=lambda index: (-scores[index], index)), *others]
    z = [0.0] * count
    spread = ((count * count - 1) / 12) ** 0.5 or 1.0  # of the ranks 0 .. count - 1
    for rank, index in enumerate(order):
        z[index] = ((count - 1) / 2 - rank) / spread
    return EvidenceRelevance(tuple(z), len(scores))


def evidence_overrides(
    overrides: Mapping[str, int | float], defaults: QGPMConfig, count: int
) -> dict[str, int | float]:
    """The caller's settings with K_s raised to the number of evidence sentences, unless the caller set it.

    A K_b that the caller set stays above K_s; one that is unset moves along in `QGPMConfig.resolve`.
    """
    if "k_sharp" in overrides:
        return dict(overrides)
    k_sharp = max(defaults.k_sharp, count)
    if "k_broad" in overrides:
        k_sharp = min(k_sharp, max(1, int(overrides["k_broad"]) - 1))
    return {**overrides, "k_sharp": k_sharp}


class _Places:
    """Where passages stand in the sentences of a text; `occurrences` counts what was found."""

    def __init__(self, text: str, sentences: Sequence[Sentence]) -> None:
        self.occurrences = 0
        self._text = text
        self._starts = [sentence.start_char for sentence in sentences]
        self._regions = _regions(sentences)

    def touched(self, passage: str) -> Iterator[int]:
        """Sentences that hold a character of some occurrence, ascending, each once.

        It ends early where passages occur too often.
        """
        reached = 0
        for form in dict.fromkeys((passage, passage.strip())):
            # White space around a passage touches no sentence: it belongs to the next one.
            leading, trailing = len(form) - len(form.lstrip()), len(form) - len(form.rstrip())
            for start, end in self._regions:
                for at in _occurrences(self._text, form, start, end):
                    self.occurrences += 1
                    if self.occurrences > _MOST_OCCURRENCES:
                        return
                    first = bisect_right(self._starts, at + leading) - 1
                    last = bisect_left(self._starts, at + len(form) - trailing)
                    yield from range(max(first, reached), last)
                    reached = max(reached, last)
            if reached:
                return


def _regions(sentences: Sequence[Sentence]) -> list[tuple[int, int]]:
    """Character spans of the parts of the context: sentences that follow each other without a hole."""
    if not sentences:
        return []
    breaks = [
        index for index, (one, two) in enumerate(pairwise(sentences), 1) if one.end_char != two.start_char
    ]
    bounds = pairwise([0, *breaks, len(sentences)])
    return [(sentences[first].start_char, sentences[end - 1].end_char) for first, end in bounds]


def _occurrences(text: str, wanted: str, start: int, end: int) -> Iterator[int]:
    """All occurrences, overlapping ones too, in time linear in the text.

    Overlapping ones are the smallest period apart, or by more than the length without it (Fine and Wilf).
    """
    at = text.find(wanted, start, end)
    if at < 0:
        return
    period = _smallest_period(wanted)
    repeated = wanted[len(wanted) - period :]
    while at >= 0:
        yield at
        while text.startswith(repeated, at + len(wanted), end):
            at += period
            yield at
        at = text.find(wanted, at + max(period, len(wanted) - period) + 1, end)


def _smallest_period(word: str) -> int:
    """The smallest p > 0 with word[i] = word[i + p] throughout (Knuth, Morris and Pratt)."""
    borders = [0] * len(word)
    border = 0
    for index in range(1, len(word)):
        while border and word[index] != word[border]:
            border = borders[border - 1]
        border += word[index] == word[border]
        borders[index] = border
    return len(word) - border
