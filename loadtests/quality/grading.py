"""Whether a greedy answer holds what it should."""

import re
from collections.abc import Sequence


def share_found(output: str, answers: Sequence[str]) -> float:
    """How many of `answers` occur in the output, from 0 to 1: as whole words, whatever their case.

    Source: RULER's string match, with borders, so that 417 is not found in 4170.
    """
    return sum(_occurs(answer, output) for answer in answers) / len(answers)


def _occurs(answer: str, output: str) -> bool:
    return re.search(rf"(?<!\w){re.escape(answer.casefold())}(?!\w)", output.casefold()) is not None
