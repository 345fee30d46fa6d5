"""What crowds ask, drawn from a pool without end."""

import random
from collections.abc import Iterator, Sequence

from loadtests.drills.ask import Ask
from loadtests.drills.attempt import Plan
from loadtests.drills.expected import fresh


def mixed(
    asks: Sequence[Ask], seed: int, *, leaving: float = 0.0, within: float = 0.0, cold: float = 0.3
) -> Iterator[Plan]:
    """Requests by chance, half of them streams.

    A share of `leaving` clients disconnect at a moment drawn evenly from `within` seconds; a share of `cold`
    requests has a salt of its own, and so finds nothing cached.
    """
    generator = random.Random(seed)
    while True:
        yield Plan(
            generator.choice(asks),
            stream=generator.random() < 0.5,
            leave=generator.uniform(0, within) if generator.random() < leaving else None,
            salt=fresh("salt") if generator.random() < cold else None,
        )
