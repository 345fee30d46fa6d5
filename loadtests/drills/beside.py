"""Work that goes on beside a drill, in a thread of its own."""

import threading
from abc import ABC, abstractmethod
from types import TracebackType
from typing import ClassVar, Self


class Beside(ABC):
    """Works until the block ends: then `ending` is set, and the work is waited for."""

    patience: ClassVar[float | None] = None
    """How many seconds it is waited for; None: until it ends."""

    def __init__(self) -> None:
        self.ending = threading.Event()
        self._thread = threading.Thread(target=self._work, daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.ending.set()
        self._thread.join(self.patience)

    @property
    def working(self) -> bool:
        """Whether the work has begun and not ended."""
        return self._thread.is_alive()

    @abstractmethod
    def _work(self) -> None:
        """What is done in the thread."""
