"""Pairs of requests that differ in one thing, and how many tokens the second may take from the first."""

import random
from collections.abc import Callable
from dataclasses import dataclass, replace
from itertools import takewhile
from typing import Any

import torch
from hypothesis import strategies as st

from tests.support.wishes import BASE, ROPES, VOCABULARY, Pass, Rope, Wish, wishes, words

BLOCK = 32


@dataclass(frozen=True)
class Pair:
    """Two requests, served one after the other; `change` is what differs."""

    change: str
    first: Wish
    second: Wish

    @property
    def shared_tokens(self) -> int:
        """Tokens of the leading blocks on which all that decides their content agrees.

        Never the last token, whose logits are wanted, and no query row of a score pass.
        """
        one, other = self.first, self.second
        if one.salt != other.salt or one.profile != other.profile:
            return 0
        agreeing = zip(one.computed, other.prompt, one.places, other.places, strict=False)
        alike = len(list(takewhile(lambda token: token[0] == token[1] and token[2] == token[3], agreeing)))
        limit = other.first_query_row if other.served == "score" else len(other.prompt) - 1
        return min(alike, limit) // BLOCK * BLOCK

    def stands_alike(self, tokens: int) -> bool:
        """Whether the first tokens stand at the same angles in both maps, as numbers."""
        return torch.allclose(self.first.angles(tokens), self.second.angles(tokens), rtol=0, atol=1e-9)


def _longer_question(wish: Wish, seed: int) -> Wish:
    return replace(
        wish,
        prompt=wish.prompt[: wish.first_query_row] + words(seed, wish.question + 9),
        question=wish.question + 9,
    )


def _other_question(wish: Wish, seed: int) -> Wish:
    return replace(wish, prompt=wish.prompt[: wish.first_query_row] + words(seed, wish.question))


def _next_turn(wish: Wish, seed: int) -> Wish:
    return replace(wish, prompt=wish.prompt + wish.forced + words(seed, 20), question=20)


def _other_token(wish: Wish, seed: int) -> Wish:
    at = seed % len(wish.prompt)
    token = 3 + (wish.prompt[at] - 2) % (VOCABULARY - 3)
    return replace(wish, prompt=(*wish.prompt[:at], token, *wish.prompt[at + 1 :]))


def _other_evidence(wish: Wish, seed: int) -> Wish:
    evidence = list(wish.evidence)
    random.Random(seed).shuffle(evidence)
    return replace(wish, evidence=tuple(evidence))


def _moved_border(wish: Wish, seed: int) -> Wish:
    """A sentence takes the first token of the next, where that has more than one."""
    at = seed % (len(wish.spans) - 1)
    (start, border), (_, end) = wish.spans[at : at + 2]
    border = min(border + 1, end - 1)
    return replace(wish, spans=(*wish.spans[:at], (start, border), (border, end), *wish.spans[at + 2 :]))


def _other_rope(wish: Wish, seed: int) -> Wish:
    others = [Rope(kind, numbers[0]) for kind, numbers in ROPES.items()]
    return replace(
        wish, rope=random.Random(seed).choice([rope for rope in (*others, None) if rope != wish.rope])
    )


def _other_number(wish: Wish, seed: int) -> Wish:
    rope = wish.rope or Rope("default", BASE)
    first, second = ROPES[rope.rope_type]
    return replace(wish, rope=Rope(rope.rope_type, second if rope.number == first else first))


def _other_pass(wish: Wish, seed: int) -> Wish:
    passes: list[Pass] = ["plain", "score", "answer"]
    return replace(
        wish, served=random.Random(seed).choice([served for served in passes if served != wish.served])
    )


def _setting(name: str, *values: float) -> Callable[[Wish, int], Wish]:
    def change(wish: Wish, seed: int) -> Wish:
        others = [value for value in values if value != getattr(wish.settings, name)]
        changed: dict[str, Any] = {name: random.Random(seed).choice(others)}
        return replace(wish, settings=replace(wish.settings, **changed))

    return change


CHANGES: dict[str, Callable[[Wish, int], Wish]] = {
    "nothing": lambda wish, seed: wish,
    "profile number": _other_number,
    "scaling type": _other_rope,
    "k_broad": _setting("k_broad", 4, 5, 30, 31),
    "t_broad": _setting("t_broad", 0, 1.0, 1.5),
    "k_sharp": _setting("k_sharp", 1, 2, 3),
    "t_sharp": _setting("t_sharp", 0, 0.5, 1.0),
    "score_low": _setting("score_low", 0.05, 0.3, 0.5),
    "stride_floor": _setting("stride_floor", 0.1, 0.2, 0.4, 1),
    "anchor_ratio": _setting("anchor_ratio", 0.2, 0.3, 1.0),
    "gate_width": _setting("gate_width", 0.5, 0.6, 2.0),
    "question": _other_question,
    "longer question": _longer_question,
    "evidence": _other_evidence,
    "border": _moved_border,
    "salt": lambda wish, seed: replace(wish, salt="other tenant"),
    "pass": _other_pass,
    "one token": _other_token,
    "next turn": _next_turn,
}
"""What the second request of a pair does differently, given a seed for what it makes up."""


@st.composite
def pairs(draw: st.DrawFn) -> Pair:
    """A request and the same with one change."""
    first = draw(wishes())
    change = draw(st.sampled_from(sorted(CHANGES)))
    return Pair(change, first, CHANGES[change](first, draw(st.integers(0, 2**32))))
