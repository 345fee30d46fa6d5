from pathlib import Path

import pytest

from loadtests.load.options import REPORTED, Options
from loadtests.load.scenarios import SCENARIOS

URL = ("--url", "http://h:1")


def test_a_url_is_enough_and_takes_every_scenario_by_all_arrivals() -> None:
    options = Options.parse(URL)
    assert options.scenarios == tuple(scenario.name for scenario in SCENARIOS)
    assert {arrival.kind for arrival in options.arrivals} == {"concurrency", "constant", "poisson"}
    assert options.out is None


def test_prompts_are_new_in_each_run_unless_a_run_is_repeated() -> None:
    assert Options.parse(URL).nonce != Options.parse(URL).nonce
    assert Options.parse([*URL, "--nonce", "x"]).nonce == "x"


def test_results_go_to_the_report_only_when_asked() -> None:
    assert Options.parse([*URL, "--out"]).out == REPORTED
    assert Options.parse([*URL, "--out", "o.json"]).out == Path("o.json")


def test_the_objective_is_stated() -> None:
    objective = Options.parse([*URL, "--ttft-slo", "0.5", "--tpot-slo", "0.02"]).objective
    assert (objective.first_token, objective.per_token) == (0.5, 0.02)


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        ((), "--url"),
        (("--url", "localhost:8000"), "http://"),
        ((*URL, "--scenario", "burst"), "burst"),
        ((*URL, "--arrival", "burst=3"), "burst=3"),
        ((*URL, "--arrival", "poisson=auto"), "concurrency"),
        ((*URL, "--minutes", "0"), "--minutes"),
        ((*URL, "--requests", "-1"), "--requests"),
    ],
)
def test_what_makes_no_sense_is_refused_by_name(
    arguments: tuple[str, ...], named: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit):
        Options.parse(arguments)
    assert named in capsys.readouterr().err
