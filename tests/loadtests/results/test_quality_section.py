from pathlib import Path

import pytest

from loadtests.quality.observations import read
from loadtests.results.quality.section import section
from loadtests.results.section import Section
from tests.loadtests import result_files
from tests.loadtests.quality_runs import line, setting, write


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Section:
    """The section of a run where gold evidence gains on `single` and QGPM loses on `qa`."""
    return section(read(result_files.quality(tmp_path_factory.mktemp("run") / "quality.jsonl")))


def _line(made: Section, beginning: str) -> str:
    [found] = [line for line in made.text.splitlines() if line.startswith(beginning)]
    return found


def test_what_it_ran_on_and_what_it_set_out_to_do_comes_first(made: Section) -> None:
    first = made.paragraphs[0]
    for said in ("seed: 7", "model: tiny", "2 cores, Some CPU", "torch 2.9", "tasks: single, qa"):
        assert said in first
    assert "plain at 500, 2000" in first


def test_the_gain_with_gold_evidence_on_retrieval_tasks_is_said_with_its_interval(made: Section) -> None:
    said = _line(made, "**QGPM, gold evidence** on the retrieval tasks")
    assert "+2.50 (" in said
    assert "+100.0" in said
    assert said.endswith("by log-probability better than plain, beyond its interval.")


def test_methods_are_pooled_over_all_tasks_with_the_lengths_that_were_run(made: Section) -> None:
    row = [cell.strip() for cell in _line(made, "| QGPM, all tasks |").split("|")]
    assert row[2] == "500"
    assert row[3].startswith("−1.00 (−1.2")
    assert row[5:8] == ["5/1/6", "12", "2"]


def test_a_method_that_is_worse_is_called_so(tmp_path: Path) -> None:
    lines = [setting(("single",))]
    for number in range(6):
        lines += [line("plain", number, -5.0), line("qgpm", number, -6.0 - 0.1 * number)]
    text = section(read(write(tmp_path / "quality.jsonl", *lines))).text
    assert "by log-probability **worse** than plain, beyond its interval." in text
    assert "**QGPM, gold evidence** was not observed on retrieval tasks." in text


def test_every_cell_that_loses_is_named(made: Section) -> None:
    losses = made.text.partition("**QGPM loses**")[2].partition("**QGPM gains**")[0]
    assert losses.startswith(" in 1 of 2 cells")
    assert "- qa at 500 tokens: −2.50 (" in losses
    assert "single at 500 tokens" not in losses
    assert "**QGPM, gold evidence loses** in 0 of 2 cells" in made.text


def test_every_cell_that_gains_is_named(made: Section) -> None:
    gains = made.text.partition("**QGPM, gold evidence gains**")[2].partition("**Undecided**")[0]
    assert "- single at 500 tokens: +2.50 (" in gains


def test_losses_are_corrected_for_the_number_of_cells(made: Section) -> None:
    losses = made.text.partition("**QGPM loses**")[2].partition("**QGPM gains**")[0]
    assert "n 6, p below plain 0.031" in losses
    assert "it is below plain in 1 (p < 0.05)" in losses


def test_what_was_not_run_is_named(made: Section) -> None:
    after = made.text.partition("Cells of the declared grid without an observation")[2].partition(
        "<details>"
    )[0]
    assert "- plain: single at 2,000, qa at 2,000" in after


def test_what_became_of_answers_whose_evidence_ranked_first_is_told_apart(made: Section) -> None:
    cells = [cell.strip() for cell in _line(made, "| single at 500 | 6 |").split("|")]
    assert cells[2:5] == ["6", "50 %", "0.75"]
    assert cells[5].startswith("+0.40 (")
    assert cells[6].startswith("+0.60 (")


def test_what_holds_few_samples_says_so(made: Section) -> None:
    assert "Cells hold 6 to 6 samples. Intervals of fewer than 20 samples are too narrow" in made.text


def test_depths_are_told_in_fifths(made: Section) -> None:
    assert len([row for row in made.text.splitlines() if row.endswith("| 4 |") and " to " in row[:14]]) == 1
    assert _line(made, "| 0 to 20 % |").count("| 2 |") == 3


def test_quality_is_plotted_against_length_as_in_the_paper(made: Section) -> None:
    assert [plot.name for plot in made.plots] == [
        "accuracy.svg",
        "difference.svg",
        "edits-accuracy.svg",
        "edits-difference.svg",
    ]
    assert made.plots[3].alt.endswith(
        "Means over the tasks: QGPM −1.00 nats at 500 tokens; QGPM, gold evidence +1.50 nats at 500 tokens."
    )
    for plot in made.plots:
        assert f"![{plot.alt}](results/{plot.name})" in made.text


def test_ablations_are_set_beside_gold_evidence(tmp_path: Path) -> None:
    lines = [setting(("single",), {"plain": (500,), "gold": (500,), "t_0": (500,)})]
    for number in range(4):
        values = {"plain": -5.0, "gold": -3.0, "t_0": -4.0 - 0.1 * number}
        lines += [line(method, number, logprob) for method, logprob in values.items()]
    made = section(read(write(tmp_path / "quality.jsonl", *lines)))
    cells = [cell.strip() for cell in _line(made, "| t_0 |").split("|")]
    assert cells[2] == "500"
    assert cells[3].startswith("−1.15 (")
    assert cells[8].startswith("+0.85 (")
    assert "ablations.svg" in [plot.name for plot in made.plots]
    assert "| t_0, all tasks" not in made.text


def test_why_answers_were_plain_is_counted(tmp_path: Path) -> None:
    lines = [line("qgpm", 0, -1.0), line("qgpm", 1, -1.0, mode="plain", reason="one sentence")]
    made = section(read(write(tmp_path / "quality.jsonl", setting(), *lines)))
    assert "Of 2 QGPM requests 1 were answered plainly: one sentence (1)." in made.text


def test_a_run_without_observations_says_so(tmp_path: Path) -> None:
    assert "Nothing was observed yet" in section(read(write(tmp_path / "quality.jsonl", setting()))).text


def test_without_a_run_the_section_says_how_to_make_one() -> None:
    assert "Not measured yet" in section(None).text
    assert "make quality" in section(None).text


def test_what_no_server_answered_is_told_apart(tmp_path: Path) -> None:
    lines = [line("plain", 0, -1.0), line("string", 0, -2.0, mode="reference")]
    text = section(read(write(tmp_path / "quality.jsonl", setting(), *lines))).text
    assert "STRING: by a transformers model," in text
    assert "by a transformers model" not in section(read(result_files.quality(tmp_path / "own.jsonl"))).text
