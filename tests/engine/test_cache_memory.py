"""Where a real cache's memory goes: every byte of the tensors is in one state, at every step."""

import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from cache.head_profile import find
from tests.engine.conftest import SMALL_BLOCKS, SMALL_LENGTH
from tests.support.cases import Case
from tests.support.checkpoints import WINDOW, make
from tests.support.engine import Engine, started

Memory = dict[str, Any]

BLOCK = 32
# float32 keys and values of two heads of width 32.
LAYER_TOKEN = 2 * 2 * 32 * 4
# One tapped key head.
SHADOW_TOKEN = 32 * 4

HYBRID_HEADS = ((1, 2), (3, 0), (3, 3))
HYBRID_BLOCKS = 85
HYBRID_LENGTH = 512
HYBRID_CHUNK = 64


@pytest.fixture(scope="module")
def shared_hybrid(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Engine]:
    """Two full layers and three windowed ones: the second windowed group has a layer and a hole."""
    model = make("gemma3", tmp_path_factory.mktemp("hybrid"), layers=5)
    options = {
        "max_model_len": HYBRID_LENGTH,
        "max_num_batched_tokens": HYBRID_CHUNK,
        "num_gpu_blocks_override": HYBRID_BLOCKS,
        "prefix_cache_retention_interval": None,
    }
    with started(model, HYBRID_HEADS, **options) as engine:
        yield engine


@pytest.fixture
def hybrid(shared_hybrid: Engine) -> Engine:
    shared_hybrid.forget()
    return shared_hybrid


def _pool(memory: Memory, name: str) -> Memory:
    (pool,) = (pool for pool in memory["pools"] if pool["name"] == name)
    return pool


def _held(memory: Memory, pool: str, state: str) -> int:
    return sum(group[f"bytes_{state}"] for group in _pool(memory, pool)["groups"])


def _used(memory: Memory) -> list[int]:
    return [_held(memory, pool["name"], "used") for pool in memory["pools"]]


def _counted(engine: Engine, before: Memory) -> dict[str, int]:
    after = engine.memory()["hit_tokens"]
    return {kind: after[kind] - before["hit_tokens"][kind] for kind in after}


def _states(pool: Memory) -> int:
    groups = sum(group["bytes_used"] + group["bytes_cached"] for group in pool["groups"])
    return groups + pool["bytes_free"] + pool["bytes_reserved"]


def test_the_pools_are_as_large_as_the_tensors(small_engine: Engine) -> None:
    memory, state = small_engine.memory(), small_engine.state()
    kv, shadow = memory["pools"]
    assert kv["bytes_total"] == state["cache_bytes"] == sum(state["layer_bytes"])
    assert kv["bytes_total"] == SMALL_BLOCKS * BLOCK * 4 * LAYER_TOKEN
    assert shadow["bytes_total"] == state["shadow_bytes"] == 2 * (SMALL_BLOCKS * BLOCK + 1) * SHADOW_TOKEN


@pytest.mark.long
def test_the_pools_of_the_default_model_are_as_large_as_its_tensors(default_model_path: Path) -> None:
    profile = find(default_model_path, None)
    assert profile is not None
    options = {"dtype": "bfloat16", "block_size": 128, "kv_cache_memory_bytes": 256 << 20}
    with started(default_model_path, profile.pairs, **options) as engine:
        case = Case(50, 600, forced=20)
        memories = engine.memories(case.scored(), case.moved(at=1), case.plain(at=2, abort_at=6))
        memory, state = engine.memory(), engine.state()
    kv, shadow = memory["pools"]
    assert kv["bytes_total"] == state["cache_bytes"] == sum(state["layer_bytes"])
    assert shadow["bytes_total"] == state["shadow_bytes"] > 0
    assert all(_states(pool) == pool["bytes_total"] for each in memories for pool in each["pools"])
    assert min(_used(memories[3])) > 0
    assert _used(memory) == [0, 0]


def test_an_empty_cache_is_free_but_for_the_null_block(small_engine: Engine) -> None:
    kv, shadow = small_engine.memory()["pools"]
    assert kv["bytes_reserved"] == BLOCK * 4 * LAYER_TOKEN
    assert kv["bytes_free"] == kv["bytes_total"] - kv["bytes_reserved"]
    # Both layers' rows of the null block, and their spare rows.
    assert shadow["bytes_reserved"] == 2 * (BLOCK + 1) * SHADOW_TOKEN
    assert shadow["bytes_free"] == shadow["bytes_total"] - shadow["bytes_reserved"]


def test_groups_say_their_layers_and_what_a_token_takes(small_engine: Engine) -> None:
    kv, shadow = small_engine.memory()["pools"]
    (group,), (tapped,) = kv["groups"], shadow["groups"]
    assert (group["kind"], group["layers"], group["window"]) == ("full", [0, 1, 2, 3], None)
    assert group["bytes_per_token"] == 4 * LAYER_TOKEN
    assert (tapped["kind"], tapped["layers"], tapped["window"]) == ("shadow", [1, 3], None)
    assert tapped["bytes_per_token"] == 2 * SHADOW_TOKEN


def test_every_byte_is_in_one_state_at_every_step(small_engine: Engine) -> None:
    cases = [Case(1, 200, forced=40), Case(2, 150, forced=60), Case(3, 300)]
    asks = [cases[0].moved(), cases[1].plain(at=1, abort_at=20), cases[2].scored(at=2)]
    memories = small_engine.memories(*asks, preempt_before=(4, 9))
    reserved = [pool["bytes_reserved"] for pool in small_engine.memory()["pools"]]
    assert len(memories) > 40
    for memory in memories:
        for pool in memory["pools"]:
            assert _states(pool) == pool["bytes_total"]
            assert min(pool["bytes_free"], pool["bytes_reserved"]) >= 0
        assert [pool["bytes_reserved"] for pool in memory["pools"]] == reserved


def test_blocks_are_used_while_their_request_runs_and_cached_behind_it(small_engine: Engine) -> None:
    # Chunks of 64 tokens: blocks come with the steps; the last, of 36 tokens, gives the first output.
    *running, last = small_engine.memories(Case(4, 100, forced=4).plain())
    blocks = [_held(memory, "kv", "used") / (BLOCK * 4 * LAYER_TOKEN) for memory in running]
    assert blocks == [2, 4, 4, 4]
    assert [_held(memory, "shadow", "used") / (BLOCK * 2 * SHADOW_TOKEN) for memory in running] == blocks
    assert _used(last) == [0, 0]
    assert _held(last, "kv", "cached") == 3 * BLOCK * 4 * LAYER_TOKEN
    assert _held(last, "shadow", "cached") == 3 * BLOCK * 2 * SHADOW_TOKEN


def test_a_block_that_two_requests_share_is_used_once(small_engine: Engine) -> None:
    case = Case(5, 97, forced=20)
    small_engine.answer(case.plain())
    memories = small_engine.memories(case.plain(), case.plain())
    most = max(_held(memory, "kv", "used") for memory in memories)
    assert most == (3 + 2) * BLOCK * 4 * LAYER_TOKEN


def test_aborted_and_preempted_requests_leave_nothing_used(small_engine: Engine) -> None:
    case, other = Case(6, 120, forced=20), Case(7, 60, forced=40)
    memories = small_engine.memories(
        case.moved(abort_at=2),
        case.scored(abort_at=3),
        case.moved(at=1, abort_at=20),
        other.plain(),
        case.moved(n=3),
        preempt_before=(3, 8),
    )
    assert all(min(_used(memory)) > 0 for memory in memories[:-1])
    assert _used(small_engine.memory()) == [0, 0]


def test_only_cached_blocks_that_are_taken_count_as_evicted(small_engine: Engine) -> None:
    before = small_engine.memory()["evicted_blocks"]
    for seed in range(10, 14):
        small_engine.answer(Case(seed, 8 * BLOCK).plain())
    full = small_engine.memory()
    # Each request held a block for its output too; it was never cached, and is taken first.
    assert full["evicted_blocks"] - before == 1
    assert _held(full, "kv", "cached") == 31 * BLOCK * 4 * LAYER_TOKEN
    small_engine.answer(Case(14, 4 * BLOCK).plain())
    assert small_engine.memory()["evicted_blocks"] - full["evicted_blocks"] == 4
    small_engine.forget()
    assert small_engine.memory()["evicted_blocks"] - full["evicted_blocks"] == 4


def test_hit_tokens_are_told_apart_by_who_hit_which_blocks(small_engine: Engine) -> None:
    case = Case(20, 200, relevant=6)
    assert case.modulation.standard_until == 82
    before = small_engine.memory()
    small_engine.answer(case.plain())
    assert _counted(small_engine, before) == {"plain": 0, "document": 0, "protected": 0, "modulated": 0}
    small_engine.answer(case.plain())
    small_engine.answer(case.scored())
    small_engine.answer(case.moved(first=True))
    assert _counted(small_engine, before) == {"plain": 192, "document": 160, "protected": 64, "modulated": 0}
    small_engine.answer(case.moved(first=True))
    expected = {"plain": 192, "document": 160, "protected": 64 + 82, "modulated": 192 - 82}
    assert _counted(small_engine, before) == expected


def test_hits_of_a_preempted_request_are_counted_once(small_engine: Engine) -> None:
    case = Case(21, 130, forced=20)
    small_engine.answer(case.plain())
    before = small_engine.memory()
    small_engine.run(case.plain(), preempt_before=(3, 6), keeping_blocks=True)
    assert _counted(small_engine, before) == {"plain": 128, "document": 0, "protected": 0, "modulated": 0}


def test_an_answer_that_keeps_all_standard_places_hits_as_a_protected_one(small_engine: Engine) -> None:
    case = Case(22, 130)
    small_engine.answer(case.scored())
    before = small_engine.memory()
    small_engine.answer(case.plain(first=True))
    assert _counted(small_engine, before) == {"plain": 0, "document": 0, "protected": 128, "modulated": 0}


def test_the_capacity_is_what_fits_without_the_null_block(small_engine: Engine) -> None:
    assert small_engine.memory()["capacity_tokens"] == 2 * SMALL_LENGTH


def test_groups_of_a_hybrid_overlay_one_pool(hybrid: Engine) -> None:
    memory, state = hybrid.memory(), hybrid.state()
    kv, shadow = memory["pools"]
    groups = {group["name"]: group for group in kv["groups"]}
    assert {name: (group["kind"], group["layers"], group["window"]) for name, group in groups.items()} == {
        "full": ("full", [1, 3], None),
        "sliding-0": ("sliding", [0, 4], WINDOW),
        "sliding-1": ("sliding", [2], WINDOW),
    }
    assert kv["bytes_total"] == state["cache_bytes"] == HYBRID_BLOCKS * BLOCK * 2 * LAYER_TOKEN
    for name in ("full", "sliding-0"):
        assert sum(state["layer_bytes"][layer] for layer in groups[name]["layers"]) == kv["bytes_total"]
    # Layer 1 has one tapped key head, layer 3 has two.
    assert shadow["bytes_total"] == state["shadow_bytes"] == 3 * (HYBRID_BLOCKS * BLOCK + 1) * SHADOW_TOKEN
    assert [(group["kind"], group["layers"]) for group in shadow["groups"]] == [("shadow", [1, 3])]


def test_padding_of_a_hybrid_is_reserved(hybrid: Engine) -> None:
    page = BLOCK * LAYER_TOKEN
    memories = hybrid.memories(Case(30, 300, forced=20).moved(), Case(31, 200).scored(at=1))
    for memory in [*memories, hybrid.memory()]:
        kv, shadow = memory["pools"]
        groups = {group["name"]: group["bytes_used"] + group["bytes_cached"] for group in kv["groups"]}
        # A block of the group with the hole is half padding; the null block is whole.
        assert kv["bytes_reserved"] == 2 * page + groups["sliding-1"]
        assert _states(kv) == kv["bytes_total"]
        # Rows whose blocks belong to windowed groups hold no tapped key.
        idle = groups["sliding-0"] // (2 * page) + groups["sliding-1"] // page
        assert shadow["bytes_reserved"] == 3 * ((1 + idle) * BLOCK + 1) * SHADOW_TOKEN
        assert _states(shadow) == shadow["bytes_total"]
        assert min(kv["bytes_free"], shadow["bytes_free"]) >= 0
    assert _used(hybrid.memory()) == [0, 0]


def test_windowed_groups_give_blocks_back_while_their_request_runs(hybrid: Engine) -> None:
    memories = hybrid.memories(Case(32, 400, forced=10).plain())
    used = [{g["name"]: g["bytes_used"] for g in _pool(memory, "kv")["groups"]} for memory in memories[:-1]]
    page = BLOCK * LAYER_TOKEN
    assert max(step["full"] for step in used) == 13 * 2 * page
    # The window and a chunk.
    assert max(step["sliding-1"] for step in used) == math.ceil((WINDOW + HYBRID_CHUNK) / BLOCK) * page
    assert max(step["sliding-0"] for step in used) == 2 * max(step["sliding-1"] for step in used)


def test_a_hybrid_holds_as_many_requests_as_its_capacity_says(hybrid: Engine) -> None:
    capacity = hybrid.memory()["capacity_tokens"]
    fitting = capacity // HYBRID_LENGTH
    # Blocks × size is more, and the blocks of all groups kept in full would be less.
    assert HYBRID_BLOCKS * BLOCK / 3 < capacity < HYBRID_BLOCKS * BLOCK
    assert fitting >= 2

    def preemptions(requests: int) -> int:
        before: int = hybrid.state()["preemptions"]
        hybrid.run(
            *[Case(40 + number, HYBRID_LENGTH - 200, forced=200).plain() for number in range(requests)]
        )
        return int(hybrid.state()["preemptions"]) - before

    assert preemptions(fitting) == 0
    assert preemptions(2 * fitting) > 0
