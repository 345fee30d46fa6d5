from pathlib import Path

import pytest

from loadtests.quality.cells import Cells
from loadtests.quality.statistics import Outcomes
from tests.loadtests.quality_runs import cells, line, setting


def _two_methods(folder: Path) -> Cells:
    """QGPM is better by 1, 2 and 3 nats on three samples; a fourth was only answered plainly."""
    plain = [line("plain", i, -5.0 - i, correct=0.0) for i in range(4)]
    qgpm = [line("qgpm", i, -5.0 - i + (i + 1), correct=1.0) for i in range(3)]
    return cells(folder, setting(), *plain, *qgpm)


def test_a_cell_is_a_task_a_length_and_a_method_with_its_means(tmp_path: Path) -> None:
    [plain] = _two_methods(tmp_path).of("plain")
    assert plain.name == "single at 500 tokens"
    assert (plain.logprob.value, plain.logprob.count, plain.accuracy.value) == (-6.5, 4, 0.0)
    assert plain.beside_plain is None
    assert plain.below_plain is None


def test_a_method_is_set_beside_plain_on_the_samples_that_both_answered(tmp_path: Path) -> None:
    [qgpm] = _two_methods(tmp_path).of("qgpm")
    beside = qgpm.beside_plain
    assert beside is not None
    assert (beside.base, beside.pairs) == ("plain", 3)
    assert (beside.logprob.mean, beside.accuracy.mean) == (2.0, 1.0)
    assert beside.outcomes == Outcomes(3, 0, 0)
    assert qgpm.below_plain == 1.0


def test_the_order_of_the_lines_does_not_matter_to_the_pairs(tmp_path: Path) -> None:
    ordered = [
        line(m, i, -float(i) if m == "plain" else -2.0 * i) for i in range(6) for m in ("plain", "gold")
    ]
    one = cells(tmp_path, setting(), *ordered).of("gold")
    other = cells(tmp_path, setting(), *reversed(ordered)).of("gold")
    assert one[0].beside_plain == other[0].beside_plain


def test_a_method_without_plain_beside_it_has_means_alone(tmp_path: Path) -> None:
    [gold] = cells(tmp_path, setting(), line("gold", 0, -2.0)).of("gold")
    assert (gold.logprob.value, gold.beside_plain, gold.below_plain) == (-2.0, None, None)


def test_p_values_are_corrected_over_the_cells_of_a_method(tmp_path: Path) -> None:
    lines = []
    for task, worse in (("single", 1.0), ("qa", -1.0)):
        for i in range(5):
            lines.append(line("plain", i, -5.0, task=task))
            lines.append(line("qgpm", i, -5.0 - worse, task=task))
    found = {cell.task: cell.below_plain for cell in cells(tmp_path, setting(), *lines).of("qgpm")}
    assert found["single"] == pytest.approx(2 / 32)
    assert found["qa"] == 1.0


def test_pooled_over_tasks_every_cell_counts_alike(tmp_path: Path) -> None:
    lines = [setting()]
    for i in range(8):
        lines += [line("plain", i, -4.0), line("gold", i, -3.0)]
    for i in range(2):
        lines += [line("plain", i, -4.0, task="qa"), line("gold", i, -7.0, task="qa")]
    pooled = cells(tmp_path, *lines).compare("gold", ("single", "qa"), (500, 2000))
    assert pooled is not None
    assert (pooled.pairs, pooled.logprob.mean) == (10, -1.0)
    assert pooled.outcomes == Outcomes(8, 0, 2)


def test_a_method_may_be_set_beside_another_than_plain(tmp_path: Path) -> None:
    found = cells(tmp_path, setting(), line("gold", 0, -2.0), line("t_0", 0, -2.5))
    beside = found.compare("t_0", ("single",), (500,), base="gold")
    assert beside is not None
    assert (beside.base, beside.logprob.mean) == ("gold", -0.5)
    assert found.compare("t_0", ("single",), (500,)) is None


def test_cells_of_the_grid_that_hold_nothing_are_missing(tmp_path: Path) -> None:
    found = cells(
        tmp_path, setting(("single",), {"plain": (500, 2000), "ms_poe": (2000,)}), line("plain", 0, -1)
    )
    assert found.missing() == [("single", 2000, "plain"), ("single", 2000, "ms_poe")]


def test_what_is_outside_of_the_grid_is_shown_after_it(tmp_path: Path) -> None:
    found = cells(tmp_path, setting(), line("extra", 0, -1.0, task="other", length=9000))
    assert found.tasks == ("single", "qa", "other")
    assert found.lengths == (500, 2000, 9000)
    assert found.methods == ("plain", "qgpm", "gold", "extra")
