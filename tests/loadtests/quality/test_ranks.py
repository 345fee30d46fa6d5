from pathlib import Path

from loadtests.quality.ranks import ranking
from tests.loadtests.quality_runs import cells, line, setting


def test_ranks_say_how_often_the_evidence_came_first_and_what_that_was_worth(tmp_path: Path) -> None:
    lines = [line("plain", i, -5.0) for i in range(4)]
    lines += [line("qgpm", i, -3.0, evidence_rank=0) for i in range(2)]
    lines += [line("qgpm", 2, -6.0, evidence_rank=1), line("qgpm", 3, -8.0, evidence_rank=3)]
    found = ranking(cells(tmp_path, setting(), *lines), "single", 500)
    assert found is not None
    assert (found.count, found.first_share, found.mrr) == (4, 0.5, (1 + 1 + 1 / 2 + 1 / 4) / 4)
    assert found.first is not None
    assert found.later is not None
    assert (found.first.logprob.mean, found.later.logprob.mean) == (2.0, -2.0)


def test_samples_whose_relevance_was_not_read_do_not_count(tmp_path: Path) -> None:
    lines = [
        line("qgpm", 0, -3.0, evidence_rank=0),
        line("qgpm", 1, -3.0, mode="plain", reason="one sentence"),
    ]
    found = ranking(cells(tmp_path, setting(), *lines), "single", 500)
    assert found is not None
    assert (found.count, found.first, found.later) == (1, None, None)


def test_without_ranks_there_is_nothing_to_say(tmp_path: Path) -> None:
    assert ranking(cells(tmp_path, setting(), line("qgpm", 0, -3.0)), "single", 500) is None
