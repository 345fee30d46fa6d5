"""What became of requests that did not end by an answer, as the server's records say."""

import time
from collections import Counter
from collections.abc import Sequence
from typing import Any

import httpx

from loadtests.drills.attempt import Attempt

UNSEEN = "unseen"
"""The server has no record: the client left before its request was read."""

LATE_SECONDS = 60.0
"""After which a request whose client left must have its outcome, and be read at all."""


class Ledger:
    """Reads outcomes while attempts go on: the server forgets the oldest of more than a thousand requests."""

    def __init__(self, client: httpx.Client) -> None:
        self._client = client
        self._seen = 0
        self._waiting: list[Attempt] = []
        self.outcomes: Counter[str] = Counter()

    def read(self, attempts: Sequence[Attempt], last: bool = False) -> None:
        """Look at those that ended otherwise than by an answer since; `last`: at all for the last time."""
        new = attempts[self._seen :]
        self._seen += len(new)
        waiting = [*self._waiting, *(each for each in new if each.end != "answered")]
        self._waiting = []
        for each in waiting:
            outcome = self._outcome_of(each.response_id)
            late = time.monotonic() - each.started - each.seconds
            if outcome in ("running", UNSEEN) and late < LATE_SECONDS and not last:
                self._waiting.append(each)
            else:
                self.outcomes[outcome] += 1

    def _outcome_of(self, response_id: str) -> str:
        response = self._client.get(f"/v1/requests/{response_id}")
        if response.status_code == httpx.codes.NOT_FOUND:
            return UNSEEN
        record: dict[str, Any] = response.raise_for_status().json()
        return str(record["outcome"])
