"""The columns that tables of comparisons share."""

from loadtests.quality import notation
from loadtests.quality.cells import Comparison

COLUMNS = ("nats (95 %)", "accuracy, points (95 %)", "W/T/L", "n", "cells")


def numbers(beside: Comparison) -> tuple[str, str, str, str, str]:
    """What `COLUMNS` name, of one comparison."""
    return (
        notation.interval(beside.logprob),
        notation.points(beside.accuracy),
        notation.outcomes(beside.outcomes),
        str(beside.pairs),
        str(beside.cells),
    )
