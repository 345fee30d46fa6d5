"""How means, intervals and outcomes are written in tables."""

from loadtests.quality.statistics import Interval, Mean, Outcomes

NOTHING = "–"


def signed(value: float, places: int = 2) -> str:
    """With its sign, a true minus, and no negative zero."""
    return f"{value:+z.{places}f}".replace("-", "−")


def mean(found: Mean, places: int = 2) -> str:
    """The mean and, where there is one, its standard error."""
    value = f"{found.value:z.{places}f}".replace("-", "−")
    return value if found.error is None else f"{value} ± {found.error:.{places}f}"


def interval(found: Interval, places: int = 2) -> str:
    """The mean and, where there is one, its interval."""
    value = signed(found.mean, places)
    if found.low is None or found.high is None:
        return value
    return f"{value} ({signed(found.low, places)} to {signed(found.high, places)})"


def outcomes(found: Outcomes) -> str:
    """Wins, ties and losses."""
    return f"{found.wins}/{found.ties}/{found.losses}"


def p_value(value: float | None) -> str:
    """Three places, or that it is below the smallest that they show."""
    if value is None:
        return NOTHING
    return "< 0.001" if value < 0.001 else f"{value:.3f}"


def points(found: Interval) -> str:
    """A difference of shares in percentage points, with its interval."""
    low, high = (None if end is None else 100 * end for end in (found.low, found.high))
    return interval(Interval(100 * found.mean, low, high), 1)
