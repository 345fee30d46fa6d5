import pytest

from loadtests.pairs import Line, Measurement, Quantities
from loadtests.ratios import AtMost, Within
from loadtests.rounds import Round, pooled_results, pooled_stages
from loadtests.stages import STAGES
from tests.loadtests.rounds import measurement, round_of

LINE = Line("plain TTFT / stock", "ttft", Within())


def test_servers_start_in_alternating_order() -> None:
    orders = [Round.numbered(number).order for number in range(3)]
    assert orders == [("stock", "ropeway"), ("ropeway", "stock"), ("stock", "ropeway")]


def test_the_pairs_of_all_rounds_make_one_result_and_each_round_its_median() -> None:
    rounds = [
        round_of(measurement("plain", LINE, [1.0, 1.2])),
        round_of(measurement("plain", LINE, [0.9, 0.9, 0.9])),
    ]
    [result] = pooled_results(rounds)
    assert result.pairs == ((1.0, 1.0), (1.0, 1.2), (1.0, 0.9), (1.0, 0.9), (1.0, 0.9))
    assert (result.ratio.median, result.ratio.count) == (0.9, 5)
    assert result.ratio.rounds == (1.1, 0.9)


def test_measurements_are_pooled_by_name_in_the_order_of_the_first_round() -> None:
    other = Line("QGPM TTFT / plain", "ttft", AtMost(2.1))
    rounds = [
        round_of(measurement("plain", LINE, [1.0]), measurement("qgpm", other, [2.0])),
        round_of(measurement("plain", LINE, [1.5]), measurement("qgpm", other, [3.0])),
    ]
    plain, qgpm = pooled_results(rounds)
    assert (plain.line, plain.pairs) == (LINE, ((1.0, 1.0), (1.0, 1.5)))
    assert (qgpm.line, qgpm.verdict) == (other, "does not hold")


def test_a_round_that_was_interrupted_counts_as_far_as_it_came() -> None:
    rounds = [
        round_of(measurement("plain", LINE, [1.0]), measurement("qgpm", LINE, [])),
        round_of(measurement("plain", LINE, [1.5]), measurement("qgpm", LINE, [])),
        round_of(measurement("plain", LINE, []), measurement("qgpm", LINE, [])),
        Round.numbered(3),
    ]
    [plain] = pooled_results(rounds)
    assert plain.ratio.rounds == (1.0, 1.5)
    assert pooled_results([Round.numbered(0)]) == []
    assert pooled_results([]) == []


def test_stages_are_those_of_the_measured_requests_of_all_rounds() -> None:
    def profiled(answer: float) -> Measurement:
        stages: Quantities = {**dict.fromkeys(STAGES, 0.5), "answer": answer, "ttft": 9.0}
        made = measurement("qgpm 2000", LINE, [])
        made.profiled = 2000
        made.pairs = [({"ttft": 1.0}, stages)]
        return made

    rounds = [round_of(profiled(1.0)), round_of(profiled(2.0), measurement("plain", LINE, [1.0]))]
    stages = pooled_stages(rounds)
    assert [stage.stage for stage in stages] == [*STAGES]
    [answer] = [stage for stage in stages if stage.stage == "answer"]
    assert (answer.tokens, answer.seconds, answer.count) == (2000, 1.5, 2)
    assert answer.share == pytest.approx(1.5 / 4)
