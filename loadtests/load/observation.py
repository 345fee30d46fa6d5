"""What one request under load came to."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Observation:
    """One request that has ended; times in seconds, `started` and `ended` on the clock of the wall.

    `part`: which of its scenario's kinds it was. `first_token`: to the first delta with text. `per_token`:
    mean of what followed. `gaps`: between deltas with text. `late`: sent so long after it was due.
    `cached_tokens`: None where the server did not say. `error`: its kind, None where it was answered.
    """

    number: int
    part: str
    started: float
    ended: float
    first_token: float | None = None
    per_token: float | None = None
    gaps: tuple[float, ...] = ()
    prompt_tokens: int = 0
    cached_tokens: int | None = None
    output_tokens: int = 0
    late: float = 0.0
    error: str | None = None

    @property
    def seconds(self) -> float:
        """From sending to the end of the stream."""
        return self.ended - self.started


@dataclass(frozen=True, slots=True)
class Objective:
    """What a good answer keeps to, in seconds: to its first token, and for each one after it."""

    first_token: float
    per_token: float

    def kept(self, seen: Observation) -> bool:
        """Whether a request was answered within both; an answer of one token has only the first."""
        if seen.error is not None or seen.first_token is None:
            return False
        return seen.first_token <= self.first_token and (seen.per_token or 0.0) <= self.per_token
