import pytest

from loadtests.load.measures import Rates, hit_rate, measured, spread
from loadtests.load.observation import Objective, Observation


def _seen(number: int, started: float, seconds: float, **more: object) -> Observation:
    told: dict[str, object] = {"first_token": 0.5, "per_token": 0.1, "prompt_tokens": 100, "output_tokens": 4}
    return Observation(number, "plain", started, started + seconds, **{**told, **more})  # type: ignore[arg-type]


def test_a_spread_leaves_out_what_is_missing() -> None:
    assert spread([1.0, None, 3.0]) == {"mean": 2.0, "p50": 2.0, "p90": 2.8, "p99": pytest.approx(2.98)}
    assert spread([None]) == {}


def test_the_rate_of_even_arrivals_is_theirs_however_long_an_answer_takes() -> None:
    for seconds in (0.1, 30.0):
        seen = [_seen(number, number / 2, seconds) for number in range(20)]
        assert Rates.of(seen, at_once=1).requests == pytest.approx(2.0)


def test_the_rate_of_several_at_a_time_is_their_number_by_the_seconds_of_an_answer() -> None:
    seen = [_seen(number, 3.0 * (number // 4), 3.0) for number in range(20)]
    rates = Rates.of(seen, at_once=4)
    assert rates.requests == pytest.approx(4 / 3)
    assert rates.output_tokens == pytest.approx(16 / 3)


def test_where_arrivals_outrun_the_server_the_rate_is_the_servers() -> None:
    seen = [_seen(number, number / 10, seconds=1.0 + number) for number in range(20)]
    assert Rates.of(seen, at_once=1).requests == pytest.approx(1 / 1.1)


def test_answers_that_end_together_make_no_server_faster_than_it_was_asked() -> None:
    seen = [_seen(number, float(number), seconds=10.0 - number) for number in range(5)]
    assert Rates.of(seen, at_once=1).requests == pytest.approx(1.0)


def test_few_answers_count_from_their_first_start() -> None:
    assert Rates.of([_seen(0, 10.0, 4.0), _seen(1, 10.0, 2.0)], at_once=4).requests == pytest.approx(0.5)
    assert Rates.of([], at_once=4).requests == 0.0


@pytest.mark.parametrize(
    ("seen", "kept"),
    [
        (_seen(0, 0.0, 9.0, first_token=2.0, per_token=0.1), True),
        (_seen(0, 0.0, 9.0, first_token=2.1, per_token=0.1), False),
        (_seen(0, 0.0, 9.0, first_token=2.0, per_token=0.11), False),
        (_seen(0, 0.0, 9.0, first_token=2.0, per_token=None), True),
        (Observation(0, "plain", 0.0, 1.0, error="HTTP 503"), False),
    ],
)
def test_an_objective_is_kept_where_both_times_are(seen: Observation, kept: bool) -> None:
    assert Objective(2.0, 0.1).kept(seen) is kept


def test_the_hit_rate_is_of_tokens_and_silence_of_some_means_no_hit() -> None:
    seen = [_seen(0, 0.0, 1.0, cached_tokens=50), _seen(1, 0.0, 1.0, prompt_tokens=300)]
    assert hit_rate(seen) == 50 / 400
    assert hit_rate([_seen(0, 0.0, 1.0)]) is None


def test_errors_are_counted_by_kind_and_keep_goodput_down() -> None:
    failed = [Observation(number, "plain", 0.0, 1.0, error="HTTP 503") for number in (1, 2)]
    line = measured([_seen(0, 0.0, 1.0), *failed, _seen(3, 1.0, 1.0)], 1, Objective(1.0, 1.0))
    assert line["requests"] == 2
    assert line["errors"] == {"HTTP 503": 2}
    assert line["goodput"]["share"] == 0.5
    assert line["goodput"]["requests_per_second"] == line["requests_per_second"]


def test_kinds_of_a_scenario_are_told_apart() -> None:
    slow = Observation(1, "long", 0.0, 9.0, first_token=4.0, per_token=0.1, output_tokens=4)
    parts = measured([_seen(0, 0.0, 1.0), slow], 1, Objective(1.0, 1.0))["parts"]
    assert {name: part["ttft"]["mean"] for name, part in parts.items()} == {"plain": 0.5, "long": 4.0}


def test_nothing_seen_is_nothing_measured() -> None:
    line = measured([], 4, Objective(1.0, 1.0))
    assert (line["requests"], line["errors"], line["ttft"], line["goodput"]["share"]) == (0, {}, {}, 0.0)
