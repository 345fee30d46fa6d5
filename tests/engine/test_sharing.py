"""Which cached blocks a request takes, and that it answers as if there were none.

Each answer is compared with the same request under a salt that nothing was cached under. Stock vLLM's own
answers to 60 prompts of this checkpoint were the same, bit for bit, on a cold and on a warm cache.
"""

from collections.abc import Iterator
from dataclasses import replace
from itertools import combinations
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings

from tests.support.asks import Answer
from tests.support.engine import Engine
from tests.support.pairs import CHANGES, Pair, pairs
from tests.support.wishes import ROPES, Pass, Rope, Wish, words

TOLERANCE = 1e-3
UNUSED = "nothing was cached under this"

# Ten sentences from token 40 on. The third is the most relevant one, and those before it are the least, so
# that they and the third itself, up to token 70, keep their places in both maps.
SPANS = tuple((start, start + 10) for start in range(40, 140, 10))
EVIDENCE = (2, 6, 3, 4, 5, 7, 8, 9, 0, 1)
WISH = Wish(prompt=words(seed=1, count=200), spans=SPANS, evidence=EVIDENCE, question=60)
PROTECTED = 64
WHOLE = 192


def same(one: Answer, other: Answer) -> bool:
    """Whether two answers of one request agree, its relevance included."""
    a, b = (np.empty(0) if answer.relevance is None else answer.relevance for answer in (one, other))
    if a.shape != b.shape or not np.allclose(a, b, rtol=0, atol=TOLERANCE):
        return False
    return one.choices == tuple(pytest.approx(choice, abs=TOLERANCE) for choice in other.choices)


def served_after(engine: Engine, first: Wish, second: Wish) -> Answer:
    """The second request's answer after the first's; it must be the one without any reuse."""
    engine.forget()
    engine.answer(first.ask())
    answer = engine.answer(second.ask())
    fresh = engine.answer(second.ask(salt=UNUSED))
    assert fresh.cached == 0
    assert same(answer, fresh)
    return answer


def setting(**changed: Any) -> Wish:
    return replace(WISH, settings=replace(WISH.settings, **changed))


def asking(question: int) -> Wish:
    return replace(WISH, prompt=WISH.prompt[:140] + words(seed=2, count=question), question=question)


CHANGED: dict[str, tuple[Wish, int]] = {
    "nothing": (WISH, WHOLE),
    "k_broad": (setting(k_broad=5), PROTECTED),
    "t_broad": (setting(t_broad=1.5), PROTECTED),
    "k_sharp": (setting(k_sharp=3), PROTECTED),
    "t_sharp": (setting(t_sharp=1.0), PROTECTED),
    "score_low": (setting(score_low=0.4), PROTECTED),
    "a stride_floor above the lowest score": (setting(stride_floor=0.4), PROTECTED),
    "a stride_floor below all scores": (setting(stride_floor=0.2), WHOLE),
    "anchor_ratio": (setting(anchor_ratio=0.3), PROTECTED),
    "gate_width": (setting(gate_width=0.6), PROTECTED),
    "question": (asking(60), 128),
    # The length of the prompt decides the anchor of all strides.
    "length of the question": (asking(50), PROTECTED),
    "evidence": (replace(WISH, evidence=(2, 7, 6, 3, 4, 5, 8, 9, 0, 1)), PROTECTED),
    "evidence that comes earlier": (replace(WISH, evidence=(0, 2, 6, 3, 4, 5, 7, 8, 9, 1)), 32),
    "a border of two sentences": (
        replace(WISH, spans=(*SPANS[:4], (80, 91), (91, 100), *SPANS[6:])),
        PROTECTED,
    ),
    "salt": (replace(WISH, salt="other tenant"), 0),
    "a score pass": (replace(WISH, served="score"), PROTECTED),
    "no qgpm": (replace(WISH, served="plain"), PROTECTED),
    "the next turn": (replace(WISH, prompt=WISH.prompt + WISH.forced + words(3, 40)), PROTECTED),
}


@pytest.mark.parametrize("change", CHANGED)
def test_a_request_that_differs_in_one_thing_shares_what_agrees(change: str, small_engine: Engine) -> None:
    other, expected = CHANGED[change]
    assert Pair(change, WISH, other).shared_tokens == expected
    assert served_after(small_engine, WISH, other).cached == expected


@pytest.mark.parametrize("served", ["plain", "score", "answer"])
@pytest.mark.parametrize("rope_type", ROPES)
def test_profiles_that_differ_in_one_number_share_nothing(
    rope_type: str, served: Pass, small_engine: Engine
) -> None:
    """vllm#30931 and vllm#42125: what has one name, or had the same place before, need not be the same."""
    one, other = (replace(WISH, rope=Rope(rope_type, n), served=served) for n in ROPES[rope_type])
    assert served_after(small_engine, one, other).cached == 0
    own = served_after(small_engine, one, one).cached
    assert own == (128 if served == "score" else WHOLE)


def test_the_models_own_profile_and_another_share_nothing(small_engine: Engine) -> None:
    plain = replace(WISH, served="plain")
    for rope_type, (number, _) in ROPES.items():
        scaled = replace(plain, rope=Rope(rope_type, number))
        assert served_after(small_engine, plain, scaled).cached == 0
        assert served_after(small_engine, scaled, plain).cached == 0


def test_one_scaling_type_and_another_share_nothing(small_engine: Engine) -> None:
    scaled = [replace(WISH, rope=Rope(kind, numbers[0])) for kind, numbers in ROPES.items()]
    for one, other in combinations(scaled, 2):
        assert served_after(small_engine, one, other).cached == 0


def test_passes_of_one_profile_share_as_those_of_the_models_own(small_engine: Engine) -> None:
    scaled = replace(WISH, rope=Rope("yarn", 4.0))
    plain, score = replace(scaled, served="plain"), replace(scaled, served="score")
    assert served_after(small_engine, plain, score).cached == 128
    assert served_after(small_engine, score, scaled).cached == PROTECTED
    assert served_after(small_engine, scaled, plain).cached == PROTECTED


@settings(max_examples=300, deadline=None)
@given(pair=pairs())
def test_any_two_requests_share_what_agrees(pair: Pair, shared_small_engine: Engine) -> None:
    answer = served_after(shared_small_engine, pair.first, pair.second)
    assert answer.cached == pair.shared_tokens
    assert pair.stands_alike(answer.cached)


@pytest.fixture(scope="module")
def restarted(start_small: Any) -> Iterator[Engine]:
    """Another process, whose strings hash otherwise."""
    with start_small() as engine:
        yield engine


@settings(max_examples=10, deadline=None)
@given(pair=pairs())
def test_a_restarted_engine_shares_the_same(
    pair: Pair, shared_small_engine: Engine, restarted: Engine
) -> None:
    hashes = [shared_small_engine.block_hashes(wish.ask()) for wish in (pair.first, pair.second)]
    assert [restarted.block_hashes(wish.ask()) for wish in (pair.first, pair.second)] == hashes
    before, after = (
        served_after(engine, pair.first, pair.second) for engine in (shared_small_engine, restarted)
    )
    assert after.cached == before.cached == pair.shared_tokens
    assert same(after, before)


def test_the_next_turn_takes_plain_blocks_to_score_and_the_protected_prefix_to_answer(
    small_engine: Engine,
) -> None:
    following = CHANGES["next turn"](WISH, 0)
    for wish in (WISH, following):
        score = small_engine.answer(replace(wish, served="score").ask())
        answer = small_engine.answer(wish.ask())
        assert score.cached == (0 if wish is WISH else WHOLE)
        assert answer.cached == PROTECTED
        assert same(answer, small_engine.answer(wish.ask(salt=f"{UNUSED} {len(wish.prompt)}")))


def test_a_retry_hits_all_its_blocks(small_engine: Engine) -> None:
    answer = small_engine.answer(WISH.ask())
    again = small_engine.answer(WISH.ask())
    assert (answer.cached, again.cached) == (0, WHOLE)
    assert same(again, answer)


def test_every_choice_hits_all_blocks(small_engine: Engine) -> None:
    answer = small_engine.answer(WISH.ask())
    choices = small_engine.answer(WISH.ask(n=3))
    assert choices.cached == WHOLE
    assert choices.choices == tuple(pytest.approx(answer.logprobs, abs=TOLERANCE) for _ in range(3))


@pytest.mark.parametrize("served", ["plain", "answer"])
@pytest.mark.parametrize("rope", [None, Rope("llama3", 8.0)])
def test_a_long_conversation_does_not_drift(rope: Rope | None, served: Pass, small_engine: Engine) -> None:
    """llama.cpp#4097, LMCache#242: keys shifted turn after turn, or by unscaled frequencies, went astray.

    Each turn takes blocks that many turns before it computed, to the end of the model's length.
    """
    wish = replace(WISH, rope=rope, served=served)
    for turn in range(13):
        answer = small_engine.answer(wish.ask())
        assert same(answer, small_engine.answer(wish.ask(salt=f"{UNUSED} {turn}")))
        following = CHANGES["next turn"](wish, turn)
        assert small_engine.answer(following.ask()).cached == Pair("", wish, following).shared_tokens
        wish = following
    assert len(wish.prompt) > 480


@pytest.mark.parametrize("rope", [None, Rope("yarn", 4.0)])
def test_a_preempted_request_hits_its_own_blocks(rope: Rope | None, small_engine: Engine) -> None:
    """vllm#16832: preempted after three outputs, it goes on where it was."""
    wish = replace(WISH, prompt=words(4, 448), question=308, forced=words(5, 12), rope=rope)
    undisturbed = small_engine.answer(wish.ask())
    small_engine.forget()
    # Seven steps of prompt, the last of which gives the first token.
    (kept,) = small_engine.run(wish.ask(), preempt_before=(9,), keeping_blocks=True)
    small_engine.forget()
    (dropped,) = small_engine.run(wish.ask(), preempt_before=(9,))
    assert same(kept, undisturbed)
    assert same(dropped, undisturbed)
    assert kept.finished_at == undisturbed.finished_at
    assert dropped.finished_at == undisturbed.finished_at + 7
