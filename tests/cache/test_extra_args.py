import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cache.extra_args import (
    ARRIVAL,
    FIRST,
    MODULATION,
    SCORE_TASK,
    ScoreTask,
    ScoreTaskError,
    modulation_of,
    reserved_names,
    score_task_of,
)
from positional.modulation import Modulation, ModulationError

TASK = ScoreTask.of([90, 91, 95], [(10, 20), (20, 31), (40, 41)], [12, 40])


@st.composite
def tasks(draw: st.DrawFn) -> ScoreTask:
    rows = draw(st.sets(st.integers(0, 2**31 - 1), min_size=1, max_size=8))
    edges = draw(st.sets(st.integers(0, 2**31 - 1), min_size=2, max_size=12))
    ordered = sorted(edges)[: len(edges) // 2 * 2]
    spans = list(zip(ordered[::2], ordered[1::2], strict=True))
    silent = draw(st.lists(st.integers(ordered[0], ordered[-1] - 1), max_size=4))
    return ScoreTask.of(sorted(rows), spans, silent)


@given(tasks())
def test_a_task_comes_back_from_its_bytes(task: ScoreTask) -> None:
    back = ScoreTask.from_bytes(task.to_bytes())
    for name in ("query_rows", "spans", "silent"):
        assert np.array_equal(getattr(back, name), getattr(task, name))


@given(st.binary(max_size=120))
def test_arbitrary_bytes_are_refused_or_a_valid_task(data: bytes) -> None:
    try:
        task = ScoreTask.from_bytes(data)
    except ScoreTaskError:
        return
    assert task.to_bytes() == data


@given(st.data())
def test_changed_bytes_are_refused_or_a_valid_task(data: st.DataObject) -> None:
    changed = bytearray(TASK.to_bytes())
    for _ in range(data.draw(st.integers(1, 4))):
        changed[data.draw(st.integers(0, len(changed) - 1))] = data.draw(st.integers(0, 255))
    try:
        task = ScoreTask.from_bytes(bytes(changed))
    except ScoreTaskError:
        return
    assert task.to_bytes() == bytes(changed)


@pytest.mark.parametrize("size", range(len(TASK.to_bytes())))
def test_a_shortened_task_is_refused(size: int) -> None:
    with pytest.raises(ScoreTaskError):
        ScoreTask.from_bytes(TASK.to_bytes()[:size])


def test_lengths_that_only_fit_when_they_overflow_are_refused() -> None:
    lengths = np.array([2**62, 2**62, -(2**63) + 1], "<i8").tobytes()
    big = np.array([2**62, 2**62, 2**62 + 1], "<i8").tobytes()
    for header in (lengths, big):
        with pytest.raises(ScoreTaskError):
            ScoreTask.from_bytes(header + bytes(4))


def test_indices_that_only_ascend_when_they_overflow_are_refused() -> None:
    data = np.array([2, 2, 0], "<i8").tobytes() + np.array([2**31 - 1, -(2**31), 3, 4], "<i4").tobytes()
    with pytest.raises(ScoreTaskError, match="query rows"):
        ScoreTask.from_bytes(data)


@pytest.mark.parametrize(
    ("rows", "spans", "silent", "named"),
    [
        ([], [(0, 1)], [], "query rows and sentences"),
        ([5], [], [], "query rows and sentences"),
        ([5, 5], [(0, 1)], [], "query rows"),
        ([6, 5], [(0, 1)], [], "query rows"),
        ([-1, 5], [(0, 1)], [], "query rows"),
        ([5], [(0, 0)], [], "spans"),
        ([5], [(3, 2)], [], "spans"),
        ([5], [(-1, 2)], [], "spans"),
        ([5], [(0, 2), (1, 3)], [], "spans"),
        ([5], [(2, 4), (0, 2)], [], "spans"),
        ([5], [(2, 4)], [1], "silent"),
        ([5], [(2, 4)], [4], "silent"),
    ],
)
def test_a_task_that_contradicts_itself_is_refused(
    rows: list[int], spans: list[tuple[int, int]], silent: list[int], named: str
) -> None:
    with pytest.raises(ScoreTaskError, match=named):
        ScoreTask.of(rows, spans, silent)


def test_a_request_of_someone_else_carries_nothing() -> None:
    for extra_args in (None, {}, {"theirs": 1}):
        assert modulation_of(extra_args) is None
        assert score_task_of(extra_args) is None


def test_what_a_request_carries_is_read_back() -> None:
    modulation = Modulation((0, 8, 20), (1.0, 0.5, 1.0), (1.0, 0.25, 1.0), 12.5, 0.5, 0.1)
    assert modulation_of({MODULATION: modulation.to_bytes()}) == modulation
    task = score_task_of({SCORE_TASK: TASK.to_bytes()})
    assert task is not None
    assert task.spans.tolist() == [[10, 20], [20, 31], [40, 41]]
    with pytest.raises(ModulationError):
        modulation_of({MODULATION: b"no"})
    with pytest.raises(ScoreTaskError):
        score_task_of({SCORE_TASK: b"no"})


def test_every_name_of_ours_is_reserved() -> None:
    names = [MODULATION, SCORE_TASK, ARRIVAL, FIRST]
    assert reserved_names({"kv": 1, **dict.fromkeys(names)}) == names
    assert reserved_names({"ropeway_tomorrow": 1}) == ["ropeway_tomorrow"]
    assert reserved_names({"my_ropeway_note": 1}) == []
    assert reserved_names(None) == []
