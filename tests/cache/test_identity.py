import os
import subprocess
import sys
from dataclasses import replace
from itertools import combinations
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from vllm import SamplingParams
from vllm.lora.request import LoRARequest
from vllm.utils.hashing import sha256
from vllm.v1.core import block_pool, kv_cache_utils
from vllm.v1.request import Request

from cache import identity
from cache.extra_args import MODULATION, PROFILE, SCORE_TASK, ScoreTask
from cache.identity import RequestIdentity
from positional.modulation import Modulation, ModulationError
from positional.profile import Profile, ProfileError

BLOCK = 32
TOKENS = list(range(1000, 1200))
MODULATION_40 = Modulation(
    (0, 40, 70, 100, 150), (1.0, 0.4, 0.7, 0.3, 1.0), (1.0, 0.3, 1.0, 0.3, 1.0), 20.0, 0.5, 0.1
)
SCORE = st.floats(0, 1)
CHANGES: dict[str, dict[str, Any]] = {
    "a broad score": {"broad": (1.0, 0.4, 0.7000000000000001, 0.3, 1.0)},
    "a sharp score": {"sharp": (1.0, 0.3, 0.999, 0.3, 1.0)},
    "swapped maps": {"broad": MODULATION_40.sharp, "sharp": MODULATION_40.broad},
    "a start": {"starts": (0, 40, 71, 100, 150)},
    "the first start": {"starts": (0, 41, 70, 100, 150)},
    "the anchor length": {"anchor_length": 20.5},
    "the gate width": {"gate_width": 0.6},
    "the stride floor": {"stride_floor": 0.35},
}


def keys(modulation: Modulation, blocks: int = 6) -> list[tuple[str, str] | None]:
    made = RequestIdentity(modulation, None)
    return [made.block_key(start, start + BLOCK) for start in range(0, blocks * BLOCK, BLOCK)]


@pytest.fixture
def hashes() -> Any:
    """Block hashes as vLLM makes them: of the first tokens, under a request's extra arguments and salt."""
    identity.install()
    kv_cache_utils.init_none_hash(sha256)
    hasher = kv_cache_utils.get_request_block_hasher(BLOCK, sha256)

    def of(
        extra_args: dict[str, Any] | None = None, tokens: int = 200, salt: str | None = None, **more: Any
    ) -> list[bytes]:
        parameters = SamplingParams(extra_args=extra_args)
        request = Request(
            "r", TOKENS[:tokens], parameters, None, cache_salt=salt, block_hasher=hasher, **more
        )
        return list(request.block_hashes)

    return of


def carried(modulation: Modulation) -> dict[str, Any]:
    return {MODULATION: modulation.to_bytes()}


def test_blocks_of_standard_places_have_no_key() -> None:
    assert [key is None for key in keys(MODULATION_40)] == [True, False, False, False, False, False]
    ending = replace(MODULATION_40, starts=(0, 64, 70, 100, 150))
    assert [key is None for key in keys(ending)] == [True, True, False, False, False, False]


def test_a_modulation_that_moves_nothing_has_no_keys() -> None:
    assert keys(Modulation((0,), (1.0,), (1.0,), 20.0, 0.5, 0.1)) == [None] * 6


def test_a_floor_of_one_moves_nothing_and_has_no_keys() -> None:
    assert keys(replace(MODULATION_40, stride_floor=1.0)) == [None] * 6


def test_a_floor_below_all_scores_of_a_block_does_not_decide_its_key() -> None:
    found, lower, acting = (keys(replace(MODULATION_40, stride_floor=f)) for f in (0.3, 0.1, 0.31))
    assert found == lower
    assert [a == b for a, b in zip(found, acting, strict=True)] == [True, False, False, False, False, True]


def test_a_weak_first_token_alone_has_no_key() -> None:
    segments = [(0, 0.3, 0.3), (1, 1.0, 1.0), (40, 0.4, 0.3), (70, 1.0, 1.0)]
    assert keys(Modulation.of_segments(segments, 20.0, 0.5, 0.1))[0] is None


def test_a_weak_first_sentence_has_a_key_from_the_first_block_on() -> None:
    assert None not in keys(Modulation((0, 50), (0.3, 1.0), (0.3, 1.0), 20.0, 0.5, 0.1))


def test_blocks_behind_the_last_sentence_stay_apart_from_plain_ones(hashes: Any) -> None:
    plain, modulated = hashes(), hashes(carried(MODULATION_40))
    assert [a == b for a, b in zip(plain, modulated, strict=True)] == [True] + [False] * 5


@pytest.mark.parametrize("change", CHANGES)
def test_other_data_never_hit(change: str, hashes: Any) -> None:
    other = replace(MODULATION_40, **CHANGES[change])
    first, second = hashes(carried(MODULATION_40)), hashes(carried(other))
    assert first[0] == second[0]
    differing = [a != b for a, b in zip(first, second, strict=True)]
    moved = 2 if change in ("a broad score", "a sharp score", "a start") else 1
    # Block 2 is the first with a token of the changed segment.
    assert differing[moved:] == [True] * (6 - moved)
    assert keys(MODULATION_40)[moved:] != keys(other)[moved:]


def test_the_same_data_hit(hashes: Any) -> None:
    again = Modulation.from_bytes(MODULATION_40.to_bytes())
    assert hashes(carried(MODULATION_40)) == hashes(carried(again))


def test_score_passes_share_the_blocks_of_plain_requests(hashes: Any) -> None:
    task = ScoreTask.of([190, 199], [(10, 20), (20, 40)], [])
    assert hashes({SCORE_TASK: task.to_bytes()}) == hashes() == hashes({"theirs": 1})


def test_a_salt_separates_modulated_blocks(hashes: Any) -> None:
    salted = hashes(carried(MODULATION_40), salt="tenant")
    assert set(salted).isdisjoint(hashes(carried(MODULATION_40)))
    assert salted == hashes(carried(MODULATION_40), salt="tenant")


def test_a_profile_separates_every_block(hashes: Any) -> None:
    """vllm#30931: two that share a name, and differ in one number."""
    profiles = [Profile.rope(base, 32) for base in (1e4, 1e4 + 2**-20)]
    for modulation in ({}, carried(MODULATION_40)):
        found = [hashes(modulation | {PROFILE: profile.to_bytes()}) for profile in profiles]
        found.append(hashes(modulation))
        for one, other in combinations(found, 2):
            assert set(one).isdisjoint(other)
        assert hashes(modulation | {PROFILE: profiles[0].to_bytes()}) == found[0]


def test_two_adapters_of_one_name_share_nothing(hashes: Any) -> None:
    """vllm#30931"""
    for extra_args in (None, carried(MODULATION_40), {PROFILE: Profile.rope(1e4, 32).to_bytes()}):
        found = [
            hashes(extra_args, lora_request=LoRARequest("name", number, path))
            for number, path in ((1, "/a"), (2, "/b"))
        ]
        found.append(hashes(extra_args))
        for one, other in combinations(found, 2):
            assert set(one).isdisjoint(other)


def test_decoded_blocks_are_hashed_like_prompt_blocks(hashes: Any) -> None:
    identity.install()
    hasher = kv_cache_utils.get_request_block_hasher(BLOCK, sha256)
    parameters = SamplingParams(extra_args=carried(MODULATION_40))
    request = Request("r", TOKENS[:90], parameters, None, block_hasher=hasher)
    for token in TOKENS[90:]:
        request.append_output_token_ids(token)
    assert list(request.block_hashes) == hashes(carried(MODULATION_40))


def test_a_shorter_prompt_shares_its_blocks(hashes: Any) -> None:
    assert hashes(carried(MODULATION_40), tokens=130) == hashes(carried(MODULATION_40))[:4]


@given(st.data())
def test_what_lies_behind_a_block_does_not_decide_its_key(data: st.DataObject) -> None:
    starts = sorted(data.draw(st.sets(st.integers(1, 190), min_size=4, max_size=10)))
    cut = data.draw(st.integers(1, len(starts) - 2))

    def modulation(seed: float) -> Modulation:
        segments: list[tuple[int, float, float]] = [(0, 1.0, 1.0)]
        for number, start in enumerate(starts[:-1]):
            shift = seed if number >= cut else 0.0
            segments.append((start, 0.2 + (number % 2) / 10 + shift, 0.5))
        return Modulation.of_segments([*segments, (starts[-1], 1.0, 1.0)], 20.0, 0.5, 0.1)

    shared = starts[cut]
    first, second = keys(modulation(0.01)), keys(modulation(0.02))
    for block, (a, b) in enumerate(zip(first, second, strict=True)):
        if (block + 1) * BLOCK <= shared:
            assert a == b
        elif block * BLOCK < starts[-1]:
            assert a != b


def test_keys_are_the_same_in_every_process() -> None:
    """They are of bytes alone, whatever Python's own hash of a string is in a process.

    The root of vLLM's chain is as well, while PYTHONHASHSEED is not set and the hash is a cryptographic one.
    """
    code = "from tests.cache.test_identity import described\nprint(described())"
    environment = {**os.environ, "PYTHONHASHSEED": "7", "PYTHONWARNINGS": "ignore"}
    result = subprocess.run(
        [sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=False
    )
    assert result.returncode == 0, result.stderr
    assert result.stdout.splitlines()[-1] == described()


def described() -> str:
    """The keys of a request that has every kind of them."""
    made = RequestIdentity(MODULATION_40, Profile.rope(2e4, 32))
    return str([made.block_key(start, start + BLOCK) for start in range(0, 200, BLOCK)])


def test_installing_twice_is_harmless(hashes: Any) -> None:
    identity.install()
    once = hashes(carried(MODULATION_40))
    installed = kv_cache_utils.generate_block_hash_extra_keys
    identity.install()
    assert kv_cache_utils.generate_block_hash_extra_keys is installed
    assert block_pool.generate_block_hash_extra_keys is installed
    assert hashes(carried(MODULATION_40)) == once


def test_malformed_data_fail_instead_of_sharing_blocks(hashes: Any) -> None:
    with pytest.raises(ModulationError):
        hashes({MODULATION: b"nonsense"})
    with pytest.raises(ProfileError):
        hashes({PROFILE: b"nonsense"})
