from math import log

import pytest

from positional.qgpm import PACKAGE_DEFAULTS, QGPMConfig
from server import tune_search
from server.tune_search import BLOCKS, GENERATION, RACE, BlockGain, Candidate, Search

BEST = QGPMConfig(
    k_broad=24, t_broad=4.0, k_sharp=12, t_sharp=2.0,
    score_low=0.9, stride_floor=0.3, anchor_ratio=0.05, gate_width=1.0,
)  # fmt: skip


def distance(config: QGPMConfig) -> float:
    """From `BEST`, a doubling of a setting counting as one."""
    doublings = sum(
        abs(log(max(getattr(config, name), 0.01) / getattr(BEST, name), 2))
        for name in ("k_broad", "t_broad", "k_sharp", "t_sharp", "stride_floor")
    )
    return doublings + 5 * abs(config.score_low - BEST.score_low)


class Synthetic:
    """Gains that fall with the distance from `BEST`; blocks differ, but alike for all candidates."""

    def __init__(self) -> None:
        self.asked: list[tuple[QGPMConfig, int]] = []

    def __call__(self, config: QGPMConfig, block: int) -> BlockGain:
        self.asked.append((config, block))
        return BlockGain(evidence=5 - distance(config) + block % 3, heads=3 - distance(config))


def searched(limit: int, seed: int = 0, starts: tuple[QGPMConfig, ...] = (PACKAGE_DEFAULTS,)) -> Search:
    """A search that is stopped after so many blocks."""
    search, objective = Search(), Synthetic()
    tune_search.run(search, objective, starts, seed, lambda: len(objective.asked) < limit)
    assert len(objective.asked) == limit
    return search


@pytest.mark.parametrize("seed", range(3))
def test_the_search_comes_near_a_known_optimum(seed: int) -> None:
    best = searched(300, seed).best

    assert best is not None
    assert len(best.gains) == BLOCKS
    assert distance(best.config) < distance(PACKAGE_DEFAULTS) / 2


def test_the_same_seed_gives_the_same_candidates_and_another_seed_others() -> None:
    def drawn(seed: int) -> list[QGPMConfig]:
        return [candidate.config for candidate in searched(60, seed).candidates]

    assert drawn(0) == drawn(0)
    assert drawn(0)[1:] != drawn(1)[1:]


def test_less_time_gives_the_beginning_of_the_same_search() -> None:
    long, short = searched(120).candidates, searched(50).candidates

    assert [candidate.config for candidate in short] == [candidate.config for candidate in long[: len(short)]]
    for candidate, further in zip(short, long, strict=False):
        assert candidate.gains == further.gains[: len(candidate.gains)]


def test_the_starts_are_measured_first_as_they_are_also_beyond_what_is_drawn() -> None:
    beyond = QGPMConfig(
        k_broad=900, t_broad=0, k_sharp=400, t_sharp=0,
        score_low=0.99, stride_floor=1, anchor_ratio=9, gate_width=9,
    )  # fmt: skip

    candidates = searched(30, starts=(beyond, BEST)).candidates

    assert [candidate.config for candidate in candidates[:2]] == [beyond, BEST]
    assert all(candidate.gains for candidate in candidates[:2])


def test_every_generation_is_halved_until_a_quarter_has_passed_all_blocks() -> None:
    candidates = searched(2 * 48).candidates

    for start in (0, GENERATION):
        passed = [len(candidate.gains) for candidate in candidates[start : start + GENERATION]]
        assert sorted(passed) == [2] * 6 + [4] * 3 + [8] * 3


def test_a_generation_is_halved_by_gain_whatever_the_order_of_drawing() -> None:
    generation = searched(48, starts=(PACKAGE_DEFAULTS, BEST)).candidates

    def worst(passed: int) -> float:
        return max(distance(c.config) for c in generation if len(c.gains) == passed)

    def nearest(passed: int) -> float:
        return min(distance(c.config) for c in generation if len(c.gains) == passed)

    assert worst(8) <= nearest(4)
    assert worst(4) <= nearest(2)


def test_drawn_settings_are_short_numbers_that_a_request_may_hold() -> None:
    for candidate in searched(96).candidates[1:]:
        drawn = candidate.config
        assert drawn.k_broad > drawn.k_sharp
        assert drawn.t_sharp == float(f"{drawn.t_sharp:.3g}")


def test_the_best_has_passed_most_blocks() -> None:
    search = searched(31)
    lucky = max(search.candidates, key=lambda candidate: candidate.mean)
    assert search.best is not None
    assert len(search.best.gains) == max(len(candidate.gains) for candidate in search.candidates)
    assert search.ranked()[0] is search.best
    assert lucky.mean >= search.best.mean


def raced(limit: int) -> tuple[Search, Synthetic]:
    """A search of two generations whose best then race for so many blocks in all."""
    search, objective = searched(2 * 48), Synthetic()
    tune_search.race(search, objective, lambda gains: len(objective.asked) + gains <= limit)
    return search, objective


def test_the_best_of_a_search_race_on_further_blocks_until_one_has_passed_most() -> None:
    search, objective = raced(10_000)

    passed = sorted((len(candidate.gains) for candidate in search.candidates), reverse=True)
    # Of the three that passed all blocks in each generation.
    assert passed[:6] == [RACE[2], RACE[1], RACE[1], RACE[0], RACE[0], RACE[0]]
    assert all(BLOCKS <= block < RACE[-1] for _, block in objective.asked)
    assert search.best is not None
    assert search.best.config == min((c for c in search.candidates), key=lambda c: distance(c.config)).config


def test_a_race_that_ends_early_has_racers_that_met_the_same_blocks() -> None:
    search, _ = raced(50)

    passed = [len(candidate.gains) for candidate in search.candidates if len(candidate.gains) > BLOCKS]
    assert len(set(passed)) == 1


def test_a_race_without_racers_is_over_at_once() -> None:
    search, objective = Search([Candidate(PACKAGE_DEFAULTS)]), Synthetic()
    tune_search.race(search, objective, lambda _: True)
    assert objective.asked == []


def test_without_time_nothing_is_found() -> None:
    search = Search()
    tune_search.run(search, Synthetic(), [PACKAGE_DEFAULTS], 0, lambda: False)
    assert search.best is None
