"""The memo: what counts as the same question, what goes when memory is short, and what is stale."""

import tracemalloc
from contextlib import suppress
from itertools import combinations
from typing import Any

import pytest
from prometheus_client import CollectorRegistry
from vllm.lora.request import LoRARequest

from cache.extra_args import PROFILE, SCORE_TASK, ScoreTask
from server.memo import MemoKey, RelevanceMemo, entry_bytes
from server.memo_metrics import MemoCollector

HEADS = b"heads"
VALUE = bytes(80)
SAME: dict[str, Any] = {
    "head_profile": HEADS,
    "tokens": list(range(40)),
    "salt": None,
    "lora": None,
    "carried": {SCORE_TASK: ScoreTask.of([39], [(0, 9), (9, 20)], [8]).to_bytes()},
}


def _task(rows: list[int], spans: list[tuple[int, int]], silent: list[int]) -> dict[str, bytes]:
    return {SCORE_TASK: ScoreTask.of(rows, spans, silent).to_bytes()}


OTHERS: dict[str, dict[str, Any]] = {
    "head profile": {"head_profile": b"headz"},
    "token": {"tokens": [*range(39), 40]},
    "length": {"tokens": list(range(41))},
    "salt": {"salt": "tenant"},
    "empty salt": {"salt": ""},
    "other salt": {"salt": "tenant 2"},
    "adapter": {"lora": LoRARequest("a", 1, "/a")},
    "adapter's name": {"lora": LoRARequest("b", 1, "/a")},
    "adapter's number": {"lora": LoRARequest("a", 2, "/a")},
    "adapter's path": {"lora": LoRARequest("a", 1, "/b")},
    "query rows": {"carried": _task([38, 39], [(0, 9), (9, 20)], [8])},
    "spans": {"carried": _task([39], [(0, 10), (10, 20)], [8])},
    "silent tokens": {"carried": _task([39], [(0, 9), (9, 20)], [])},
    "profile": {"carried": {**SAME["carried"], PROFILE: b"one"}},
    "other profile": {"carried": {**SAME["carried"], PROFILE: b"two"}},
}


def _key(number: int, adapter: int | None = None, salt: str | None = None) -> MemoKey:
    lora = None if adapter is None else LoRARequest(f"adapter {adapter}", adapter, "/a")
    return MemoKey.of(HEADS, [number], salt, lora, {})


def _filled(entries: int, **options: Any) -> RelevanceMemo:
    memo = RelevanceMemo(HEADS, **options)
    for number in range(entries):
        memo.put(_key(number), VALUE, memo.generation)
    return memo


def test_equal_questions_have_one_key() -> None:
    again = {**SAME, "tokens": tuple(range(40)), "carried": dict(reversed(SAME["carried"].items()))}
    assert MemoKey.of(**SAME) == MemoKey.of(**again)


def test_whatever_differs_makes_another_key() -> None:
    keys = {name: MemoKey.of(**{**SAME, **other}) for name, other in {"same": {}, **OTHERS}.items()}
    equal = [(one, two) for one, two in combinations(keys, 2) if keys[one].digest == keys[two].digest]
    assert equal == []


def test_a_value_comes_back_and_is_counted() -> None:
    memo = RelevanceMemo(HEADS)
    assert memo.get(_key(1)) is None
    memo.put(_key(1), VALUE, memo.generation)
    assert memo.get(_key(1)) == VALUE
    size = entry_bytes(_key(1), VALUE)
    described = {"entries": 1, "bytes": size, "limit": 64 << 20, "hits": 1, "misses": 1, "evictions": 0}
    assert memo.describe() == described


def test_the_least_recently_used_entry_goes_first() -> None:
    memo = _filled(3, limit=3 * entry_bytes(_key(0), VALUE))
    memo.get(_key(0))
    memo.put(_key(3), VALUE, memo.generation)
    assert [memo.get(_key(number)) is not None for number in range(4)] == [True, False, True, True]
    assert memo.evictions == 1


def test_who_floods_the_memo_takes_the_place_of_his_own_entries() -> None:
    memo = RelevanceMemo(HEADS, limit=10 * entry_bytes(_key(0), VALUE))
    for number in range(4):
        memo.put(_key(number, salt="modest"), VALUE, memo.generation)
    for number in range(1000):
        memo.put(_key(number, salt="greedy"), VALUE, memo.generation)
    assert all(memo.get(_key(number, salt="modest")) for number in range(4))
    assert [number for number in range(1000) if _key(number, salt="greedy") in memo] == [*range(994, 1000)]
    assert len(memo) == 10


def test_who_holds_less_than_half_takes_the_oldest_entry_s_place() -> None:
    memo = _filled(10, limit=10 * entry_bytes(_key(0), VALUE))
    memo.put(_key(0, salt="new"), VALUE, memo.generation)
    assert _key(0, salt="new") in memo
    assert [number for number in range(10) if _key(number) in memo] == [*range(1, 10)]


def test_what_a_tenant_holds_is_forgotten_with_its_entries() -> None:
    memo = RelevanceMemo(HEADS, limit=10 * entry_bytes(_key(0), VALUE))
    for round_ in range(3):
        for number in range(20):
            memo.put(_key(number, salt=f"tenant {round_}"), VALUE, memo.generation)
        with memo.invalidating("reset"):
            pass
        assert (len(memo), memo.bytes) == (0, 0)
    memo.put(_key(0), VALUE, memo.generation)
    assert memo.bytes == entry_bytes(_key(0), VALUE)


def test_bytes_stay_within_the_limit() -> None:
    limit = 10_000
    memo = RelevanceMemo(HEADS, limit)
    for number in range(200):
        memo.put(_key(number % 60), bytes(number * 7), memo.generation)
        assert memo.bytes <= limit
    assert len(memo) > 1
    memo.put(_key(1000), bytes(limit), memo.generation)
    assert memo.get(_key(1000)) is None
    assert len(memo) > 1


def test_a_value_put_twice_is_counted_once() -> None:
    memo = _filled(1)
    memo.put(_key(0), bytes(800), memo.generation)
    assert (len(memo), memo.bytes) == (1, entry_bytes(_key(0), bytes(800)))
    assert memo.get(_key(0)) == bytes(800)


def test_without_memory_nothing_is_kept() -> None:
    memo = _filled(3, limit=0)
    assert (len(memo), memo.bytes, memo.get(_key(0))) == (0, 0, None)


@pytest.mark.parametrize("sentences", [2, 200])
def test_the_counted_bytes_hold_what_entries_really_take(sentences: int) -> None:
    memo = RelevanceMemo(HEADS)
    tracemalloc.start()
    before = tracemalloc.get_traced_memory()[0]
    for number in range(2000):
        memo.put(_key(number), bytes(bytearray(8 * sentences)), memo.generation)
    taken = tracemalloc.get_traced_memory()[0] - before
    tracemalloc.stop()
    assert taken <= memo.bytes < 2 * taken


@pytest.mark.parametrize("cause", ["reset", "weights", "lora", "profile"])
def test_what_was_found_around_a_change_is_stale(cause: Any) -> None:
    memo = _filled(2)
    before = memo.generation
    with memo.invalidating(cause):
        assert len(memo) == 0
        memo.put(_key(2), VALUE, memo.generation)
        during = memo.generation
    assert (len(memo), memo.bytes) == (0, 0)
    for generation in (before, during):
        memo.put(_key(3), VALUE, generation)
        assert memo.get(_key(3)) is None
    memo.put(_key(3), VALUE, memo.generation)
    assert memo.get(_key(3)) == VALUE
    assert memo.invalidations == {**dict.fromkeys(("reset", "weights", "lora", "profile"), 0), cause: 1}


def test_a_change_that_fails_leaves_nothing_behind() -> None:
    memo = _filled(2)
    with suppress(OSError), memo.invalidating("weights"):
        memo.put(_key(5), VALUE, memo.generation)
        raise OSError("no such weights")
    assert len(memo) == 0


def test_an_adapter_takes_its_own_entries_with_it() -> None:
    memo = _filled(2)
    for adapter in (1, 2):
        memo.put(_key(9, adapter), VALUE, memo.generation)
    with memo.invalidating("lora", 1):
        pass
    assert memo.get(_key(9, 1)) is None
    assert all(memo.get(key) == VALUE for key in (_key(0), _key(1), _key(9, 2)))


def test_metrics_show_the_memo() -> None:
    registry = CollectorRegistry()
    memo = _filled(2)
    registry.register(MemoCollector(memo))
    memo.get(_key(0))
    memo.get(_key(7))
    with memo.invalidating("lora", 4):
        pass
    names = ("entries", "bytes", "limit_bytes", "hits_total", "misses_total", "evictions_total")
    values = [registry.get_sample_value(f"ropeway_memo_{name}") for name in names]
    assert values == [2, memo.bytes, memo.limit, 1, 1, 0]
    counted = {
        cause: registry.get_sample_value("ropeway_invalidations_total", {"cause": cause})
        for cause in ("reset", "weights", "lora", "profile")
    }
    assert counted == {"reset": 0, "weights": 0, "lora": 1, "profile": 0}
