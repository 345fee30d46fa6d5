import httpx
import pytest

from loadtests.asker import Asker
from loadtests.measurements import Sizes, measurements
from loadtests.workload import Workload

SIZES = Sizes(plain=1000, qgpm=(1000, 2000, 4000, 8000), max_tokens=32, pairs=3)


def test_lengths_that_have_no_room_become_the_longest_that_fits() -> None:
    assert SIZES.fitting(131072) == SIZES
    assert SIZES.fitting(8192).qgpm == (1000, 2000, 4000, 7900)
    assert SIZES.fitting(4096).qgpm == (1000, 2000, 3900)
    assert SIZES.fitting(512) == Sizes(plain=400, qgpm=(400,), max_tokens=32, pairs=3)


def test_long_prompts_are_measured_less_often_but_always_once() -> None:
    assert [SIZES.pairs_of(tokens) for tokens in (500, 2000, 4000, 8000, 100_000)] == [3, 3, 2, 1, 1]


async def test_every_quantity_that_is_compared_has_a_line_of_its_own() -> None:
    async with httpx.AsyncClient() as client:
        every = measurements(Asker(client, Workload(12.0)), "http://stock", "http://ropeway", SIZES)
    names = [line.name for measurement in every for line in measurement.lines]
    assert len(set(names)) == len(names)
    assert len({measurement.name for measurement in every}) == len(every)
    for text in (
        "plain TTFT",
        "throughput",
        "8,000 tokens",
        "by words",
        "evidence",
        "another QGPM question",
        "again",
    ):
        assert any(text in name for name in names), text
    assert [measurement.profiled for measurement in every if measurement.profiled] == [*SIZES.qgpm]


@pytest.mark.parametrize(("qgpm", "middle"), [((600,), 600), ((1, 2), 2), ((1, 2, 3, 4), 3)])
def test_reuse_is_measured_at_a_length_in_the_middle(qgpm: tuple[int, ...], middle: int) -> None:
    assert Sizes(1000, qgpm, 8, 2).middle == middle
