"""Modulation: merged segments, an exact round trip as bytes, and refusal of anything malformed."""

import math
import struct
from dataclasses import replace
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from positional.modulation import ENDLESS, Modulation, ModulationError

PLAIN = Modulation(
    starts=(0, 4, 9),
    broad=(1.0, 0.5, 1.0),
    sharp=(1.0, 0.25, 1.0),
    anchor_length=30.0,
    gate_width=0.5,
    stride_floor=0.1,
)
HEAD = "<4sQ3d"


@st.composite
def modulations(draw: st.DrawFn) -> Modulation:
    score = st.floats(0, 1)
    starts = sorted(draw(st.sets(st.integers(1, ENDLESS - 1), max_size=20)))
    segments = [(start, draw(score), draw(score)) for start in (0, *starts)]
    segments[-1] = (segments[-1][0], 1.0, 1.0)
    positive = st.floats(0, exclude_min=True, allow_infinity=False)
    floor = st.floats(0, 1, exclude_min=True)
    return Modulation.of_segments(segments, draw(positive), draw(positive), draw(floor))


@given(modulations())
def test_bytes_give_back_the_same_modulation(modulation: Modulation) -> None:
    assert Modulation.from_bytes(modulation.to_bytes()) == modulation


@given(modulations())
def test_neighbours_of_equal_scores_are_one_segment(modulation: Modulation) -> None:
    scores = list(zip(modulation.broad, modulation.sharp, strict=True))
    assert all(one != other for one, other in pairwise(scores))


def test_a_merged_segment_starts_where_its_first_part_did() -> None:
    segments = [
        (0, 1.0, 1.0),
        (3, 1.0, 1.0),
        (4, 0.5, 0.2),
        (6, 0.5, 0.2),
        (7, 0.5, 0.3),
        (9, 1.0, 1.0),
        (12, 1.0, 1.0),
    ]
    found = Modulation.of_segments(segments, 30.0, 0.5, 0.1)
    assert found.starts == (0, 4, 7, 9)
    assert found.broad == (1.0, 0.5, 0.5, 1.0)
    assert found.sharp == (1.0, 0.2, 0.3, 1.0)


@pytest.mark.parametrize(
    ("starts", "broad", "sharp", "until"),
    [
        ((0,), (1.0,), (1.0,), ENDLESS),
        ((0, 4, 9), (1.0, 0.5, 1.0), (1.0, 1.0, 1.0), 4),
        ((0, 4, 9), (1.0, 1.0, 1.0), (1.0, 0.5, 1.0), 4),
        ((0, 4), (0.5, 1.0), (1.0, 1.0), 1),
    ],
)
def test_tokens_before_the_first_low_score_are_standard(
    starts: tuple[int, ...], broad: tuple[float, ...], sharp: tuple[float, ...], until: int
) -> None:
    assert Modulation(starts, broad, sharp, 30.0, 0.5, 0.1).standard_until == until


def test_a_floor_of_one_leaves_all_tokens_at_standard_places() -> None:
    assert replace(PLAIN, stride_floor=1.0).standard_until == ENDLESS


def test_the_score_of_token_0_alone_is_that_of_token_1() -> None:
    found = Modulation.of_segments([(0, 0.3, 0.3), (1, 0.5, 0.2), (4, 1.0, 1.0)], 30.0, 0.5, 0.1)
    assert (found.starts, found.broad, found.sharp) == ((0, 4), (0.5, 1.0), (0.2, 1.0))
    assert Modulation.of_segments([(0, 0.3, 0.3), (1, 1.0, 1.0)], 30.0, 0.5, 0.1).starts == (0,)


def packed(**changes: Any) -> bytes:
    """The bytes of `PLAIN` with some numbers changed, unchecked."""
    values: dict[str, Any] = {
        "magic": PLAIN.to_bytes()[:4],
        "count": 3,
        "anchor_length": 30.0,
        "gate_width": 0.5,
        "stride_floor": 0.1,
        "starts": PLAIN.starts,
        "broad": PLAIN.broad,
        "sharp": PLAIN.sharp,
    } | changes
    head = struct.pack(
        HEAD, *(values[n] for n in ("magic", "count", "anchor_length", "gate_width", "stride_floor"))
    )
    segments = len(values["starts"])
    return head + struct.pack(
        f"<{segments}q{2 * segments}d", *values["starts"], *values["broad"], *values["sharp"]
    )


def test_the_packing_above_is_the_format() -> None:
    assert packed() == PLAIN.to_bytes()


NAN, INFINITY = math.nan, math.inf
MALFORMED: dict[str, bytes] = {
    "empty": b"",
    "head cut": packed()[:20],
    "last byte cut": packed()[:-1],
    "last segment cut": packed()[:-24],
    "one byte more": packed() + b"\0",
    "wrong magic": packed(magic=b"RWM0"),
    "no segment": packed(count=0, starts=(), broad=(), sharp=()),
    "count too low": packed(count=2),
    "count too high": packed(count=4),
    "count huge": packed(count=2**64 - 1),
    "count that wraps round to the size": packed(count=3 + 2**61),
    "unsorted": packed(starts=(0, 9, 4)),
    "twice the same start": packed(starts=(0, 4, 4)),
    "starts behind 0": packed(starts=(1, 4, 9)),
    "negative start": packed(starts=(-1, 4, 9)),
    "start of nothing": packed(starts=(0, 4, ENDLESS)),
    "last segment modulated": packed(broad=(1.0, 0.5, 0.7)),
    "equal neighbours": packed(broad=(1.0, 1.0, 1.0), sharp=(0.5, 1.0, 1.0)),
    **{f"score {v}": packed(broad=(1.0, v, 1.0)) for v in (NAN, INFINITY, -INFINITY, -0.01, 1.01)},
    **{f"sharp score {v}": packed(sharp=(1.0, v, 1.0)) for v in (NAN, INFINITY, -0.01, 1.01)},
    **{f"anchor {v}": packed(anchor_length=v) for v in (NAN, INFINITY, 0.0, -1.0)},
    **{f"gate {v}": packed(gate_width=v) for v in (NAN, INFINITY, 0.0, -1.0)},
    **{f"floor {v}": packed(stride_floor=v) for v in (NAN, INFINITY, 0.0, -0.1, 1.01)},
}


@pytest.mark.parametrize("data", [pytest.param(data, id=name) for name, data in MALFORMED.items()])
def test_malformed_bytes_are_refused(data: bytes) -> None:
    with pytest.raises(ModulationError):
        Modulation.from_bytes(data)


def accepted_or_refused(data: bytes) -> None:
    """Bytes are either a modulation's own, or a ModulationError: nothing else may escape."""
    try:
        modulation = Modulation.from_bytes(data)
    except ModulationError:
        return
    assert modulation.to_bytes() == data


@given(st.binary(max_size=200))
def test_arbitrary_bytes_raise_nothing_else(data: bytes) -> None:
    accepted_or_refused(data)


@given(count=st.integers(0, 5), body=st.binary(min_size=24, max_size=24 * 6))
def test_arbitrary_bytes_behind_the_magic_raise_nothing_else(count: int, body: bytes) -> None:
    accepted_or_refused(PLAIN.to_bytes()[:4] + struct.pack("<Q", count) + body[: 24 * (count + 1)])


@given(modulation=modulations(), data=st.data())
def test_one_changed_byte_raises_nothing_else(modulation: Modulation, data: st.DataObject) -> None:
    damaged = bytearray(modulation.to_bytes())
    damaged[data.draw(st.integers(0, len(damaged) - 1))] = data.draw(st.integers(0, 255))
    accepted_or_refused(bytes(damaged))


@pytest.mark.parametrize(
    "changes",
    [
        {"starts": (0, 4)},
        {"broad": (1.0, 1.0)},
        {"starts": (), "broad": (), "sharp": ()},
        {"starts": (0, 4, 2**70)},
    ],
)
def test_numbers_that_describe_nothing_are_refused(changes: dict[str, Any]) -> None:
    with pytest.raises(ModulationError):
        replace(PLAIN, **changes)
