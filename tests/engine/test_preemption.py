"""A cache of twice the longest request for twelve at once: who is preempted answers as with room to spare."""

from dataclasses import replace

import pytest

from tests.engine.test_sharing import WISH, same
from tests.support.engine import Engine
from tests.support.wishes import Pass, Rope, Wish, words

YARN, LINEAR = Rope("yarn", 4.0), Rope("linear", 2.0)
Kind = tuple[Pass, Rope | None]
KINDS: dict[str, tuple[Kind, ...]] = {
    "plain": (("plain", None),),
    "evidence": (("answer", None),),
    "both passes of qgpm": (("score", None), ("answer", None)),
    "own profiles": (("plain", YARN), ("plain", LINEAR)),
    "qgpm under own profiles": (("answer", YARN), ("score", YARN)),
    "all": (("plain", None), ("answer", None), ("score", None), ("plain", YARN), ("answer", LINEAR)),
}


def wish(number: int, kind: Kind) -> Wish:
    """A request of up to 500 tokens with its output, unlike all others."""
    served, rope = kind
    prompt = words(number, 300 + 4 * number)
    return replace(
        WISH,
        prompt=prompt,
        question=len(prompt) - WISH.spans[-1][1],
        served=served,
        rope=rope,
        forced=words(100 + number, 150),
    )


@pytest.mark.parametrize("kinds", KINDS)
def test_preempted_requests_answer_as_with_room_to_spare(kinds: str, small_engine: Engine) -> None:
    wishes = [wish(number, KINDS[kinds][number % len(KINDS[kinds])]) for number in range(12)]
    before = small_engine.state()["preemptions"]
    alone = []
    for one in wishes:
        small_engine.forget()
        alone.append(small_engine.answer(one.ask()))
    assert small_engine.state()["preemptions"] == before
    small_engine.forget()
    together = small_engine.run(*(one.ask() for one in wishes))
    assert small_engine.state()["preemptions"] > before
    assert all(map(same, together, alone))
