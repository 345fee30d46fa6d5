"""The list of what is measured, and how often."""

from dataclasses import dataclass
from math import ceil

from loadtests.asker import Asker
from loadtests.pairs import Line, Measurement
from loadtests.ratios import AtMost, Within
from loadtests.workload import Ask

KINDS = ("plain", "throughput", "qgpm", "lexical", "evidence", "reuse")
"""What the names of measurements begin with."""

CROWD = 8
CROWD_TOKENS = 200
# Prompts are made to a number of sentences, whose tokens vary.
_FITTING = 0.97
# Up to this length every pair is measured.
_EVERY_PAIR = 2000


@dataclass(frozen=True, slots=True)
class Sizes:
    """How much of everything: prompt tokens of plain requests and of QGPM's, answer tokens, pairs a round."""

    plain: int
    qgpm: tuple[int, ...]
    max_tokens: int
    pairs: int

    @property
    def middle(self) -> int:
        """The length at which words, evidence and further questions are measured."""
        return self.qgpm[len(self.qgpm) // 2]

    def fitting(self, window: int) -> "Sizes":
        """These sizes in a window of so many tokens; too long ones become the longest that fits."""
        longest = int(_FITTING * window - self.max_tokens) // 100 * 100
        qgpm = tuple(dict.fromkeys(min(tokens, longest) for tokens in self.qgpm))
        return Sizes(min(self.plain, longest), qgpm, self.max_tokens, self.pairs)

    def pairs_of(self, tokens: int) -> int:
        """Pairs at a length: less of them where one takes long, and noise weighs less in it."""
        return min(self.pairs, ceil(self.pairs * _EVERY_PAIR / tokens))


def measurements(asker: Asker, stock: str, ropeway: str, sizes: Sizes) -> list[Measurement]:
    """All measurements on the servers at the two addresses."""
    return [
        Measurement(
            "plain",
            asker.single(stock, sizes.plain, sizes.max_tokens),
            asker.single(ropeway, sizes.plain, sizes.max_tokens),
            [
                Line(f"plain TTFT, {sizes.plain:,} tokens / stock", "ttft", Within()),
                Line("plain time per token / stock", "per_token", Within()),
            ],
            sizes.pairs,
        ),
        Measurement(
            "throughput",
            asker.crowd(stock, CROWD, CROWD_TOKENS, sizes.max_tokens),
            asker.crowd(ropeway, CROWD, CROWD_TOKENS, sizes.max_tokens),
            [Line(f"plain throughput, {CROWD} at a time / stock", "seconds", Within())],
            sizes.pairs,
        ),
        *(_qgpm(asker, ropeway, sizes, tokens) for tokens in sizes.qgpm),
        _one_pass(asker, ropeway, sizes, "lexical", "by words"),
        _one_pass(asker, ropeway, sizes, "evidence", "with evidence"),
        _reuse(asker, ropeway, sizes),
    ]


def _qgpm(asker: Asker, url: str, sizes: Sizes, tokens: int) -> Measurement:
    """QGPM against plain on one server, nothing cached; time per token at the first length only."""
    first = tokens == sizes.qgpm[0]
    output = sizes.max_tokens if first else min(sizes.max_tokens, 8)
    lines = [Line(f"QGPM TTFT, {tokens:,} tokens / plain", "ttft", AtMost(2.1))]
    if first:
        lines.append(Line("QGPM time per token / plain", "per_token", Within()))
    return Measurement(
        f"qgpm {tokens}",
        asker.single(url, tokens, output),
        asker.single(url, tokens, output, "qgpm"),
        lines,
        sizes.pairs_of(tokens),
        # Longer prompts run what the first has warmed up.
        warms_up=first,
        profiled=tokens,
    )


def _one_pass(asker: Asker, url: str, sizes: Sizes, ask: Ask, named: str) -> Measurement:
    """QGPM that needs no score pass against plain."""
    tokens = sizes.middle
    return Measurement(
        f"{ask} {tokens}",
        asker.single(url, tokens, 1),
        asker.single(url, tokens, 1, ask),
        [Line(f"QGPM TTFT {named}, {tokens:,} tokens / plain", "ttft", AtMost(1.1))],
        sizes.pairs_of(tokens),
        warms_up=False,
    )


def _reuse(asker: Asker, url: str, sizes: Sizes) -> Measurement:
    tokens = sizes.middle
    return Measurement(
        f"reuse {tokens}",
        asker.plain_for_reuse(url, tokens),
        asker.questions(url, tokens),
        [
            Line(f"another QGPM question, {tokens:,} tokens / plain", "question", AtMost(1.25)),
            Line("the same QGPM question again / plain", "again", AtMost(0.35)),
        ],
        sizes.pairs_of(tokens),
    )
