import pytest

from loadtests.load.arrival import Arrival, ArrivalError


@pytest.mark.parametrize(
    ("text", "arrival"),
    [
        ("concurrency=4", Arrival("concurrency", 4.0)),
        ("constant=0.5", Arrival("constant", 0.5)),
        ("poisson=2", Arrival("poisson", 2.0)),
        ("poisson=auto", Arrival("poisson", None)),
    ],
)
def test_an_arrival_is_a_kind_and_a_value(text: str, arrival: Arrival) -> None:
    assert Arrival.parse(text) == arrival


@pytest.mark.parametrize(
    "text",
    [
        "burst=3",
        "concurrency",
        "concurrency=auto",
        "concurrency=0",
        "concurrency=1.5",
        "constant=-1",
        "constant=fast",
        "poisson=nan",
        "poisson=inf",
    ],
)
def test_what_is_no_arrival_is_refused_by_name(text: str) -> None:
    with pytest.raises(ArrivalError, match=text):
        Arrival.parse(text)


def test_an_automatic_rate_stays_below_what_the_server_reached() -> None:
    arrival = Arrival("poisson", None).settled(reached=10.0)
    assert arrival is not None
    assert arrival.value == pytest.approx(7.0)


def test_a_server_that_reached_nothing_gives_no_automatic_rate() -> None:
    assert Arrival("constant", None).settled(reached=None) is None
    assert Arrival("constant", None).settled(reached=0.0) is None


def test_a_stated_rate_stays_whatever_the_server_reached() -> None:
    arrival = Arrival("constant", 3.0)
    assert arrival.settled(reached=None) == arrival == arrival.settled(reached=1.0)


def test_the_json_names_a_rate_or_a_number_at_a_time() -> None:
    assert Arrival("poisson", 2.5).to_json() == {"kind": "poisson", "rate": 2.5}
    assert Arrival("concurrency", 4.0).to_json() == {"kind": "concurrency", "concurrency": 4}
