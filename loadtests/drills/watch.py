"""What `/ready` says while something is done to its server."""

import time

import httpx

from loadtests.drills.beside import Beside

UNREACHABLE = "unreachable"
_LOOK_SECONDS = 0.25


class Watch(Beside):
    """Asks again and again until the block ends; `changes`: seconds since its start, and what was said then.

    Where nothing answers within a minute, that is `unreachable` too.
    """

    def __init__(self, url: str) -> None:
        super().__init__()
        self._url = url
        self._started = time.monotonic()
        self.changes: list[tuple[float, str]] = []

    @property
    def seen(self) -> list[str]:
        """What was said, each change once."""
        return [status for _, status in self.changes]

    def wait_for(self, *statuses: str, seconds: float) -> bool:
        """Whether one of these is said within so many seconds."""
        deadline = time.monotonic() + seconds
        while not (self.changes and self.changes[-1][1] in statuses):
            if time.monotonic() > deadline:
                return False
            time.sleep(_LOOK_SECONDS)
        return True

    def __str__(self) -> str:
        return ", then ".join(f"{status} from {since:.1f} s" for since, status in self.changes)

    def _work(self) -> None:
        with httpx.Client(timeout=60) as client:
            while True:
                since, status = time.monotonic() - self._started, _status(client, self._url)
                if not self.changes or self.changes[-1][1] != status:
                    self.changes.append((since, status))
                if self.ending.wait(_LOOK_SECONDS):
                    return


def _status(client: httpx.Client, url: str) -> str:
    try:
        response = client.get(f"{url}/ready")
    except httpx.TransportError:
        return UNREACHABLE
    said = response.json()["status"]
    return str(said) if response.is_success == (said == "ready") else f"{response.status_code} {said}"
