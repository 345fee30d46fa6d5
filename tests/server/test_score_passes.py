"""How many score passes may run at a time for one API key."""

import gc

import pytest

from server.limits import LimitError
from server.score_passes import ScorePasses


def test_one_more_than_the_limit_is_refused_with_429_and_a_time_to_wait() -> None:
    passes = ScorePasses(2)
    held = [passes.place(b"key") for _ in range(2)]
    for place in held:
        place.take()
    with pytest.raises(LimitError) as refused:
        passes.place(b"key").take()
    error = refused.value
    assert (error.limit, error.parameter, error.status) == ("score_passes", "qgpm", 429)
    assert error.retry_after == 1
    assert "2 at a time (--max-score-passes)" in str(error)
    held[0].release()
    passes.place(b"key").take()


def test_the_time_to_wait_is_what_passes_took_lately() -> None:
    passes = ScorePasses(1)
    for _ in range(20):
        passes.enter(None)
        passes.leave(None, 7.5)
    passes.enter(None)
    with pytest.raises(LimitError) as refused:
        passes.enter(None)
    assert refused.value.retry_after == 8


def test_holders_of_different_keys_do_not_wait_for_each_other() -> None:
    passes = ScorePasses(1)
    places = [passes.place(holder) for holder in (b"one", b"two", None)]
    for place in places:
        place.take()
    assert [passes.running(holder) for holder in (b"one", b"two", None)] == [1, 1, 1]


def test_zero_is_no_limit() -> None:
    passes = ScorePasses(0)
    places = [passes.place(None) for _ in range(500)]
    for place in places:
        place.take()
    assert passes.running(None) == 500


def test_a_place_is_given_back_once() -> None:
    passes = ScorePasses(5)
    with passes.place(None) as place:
        assert passes.running(None) == 1
        place.release()
        place.release()
        assert passes.running(None) == 0
    assert passes.running(None) == 0


def test_a_place_that_was_given_back_is_not_taken_later() -> None:
    """As where a request was refused while one of its prompts was still being located."""
    passes = ScorePasses(5)
    place = passes.place(None)
    place.release()
    place.take()
    assert passes.running(None) == 0


def test_a_place_that_nobody_holds_any_more_is_free() -> None:
    passes = ScorePasses(1)
    place = passes.place(None)
    place.take()
    del place
    gc.collect()
    assert passes.running(None) == 0
