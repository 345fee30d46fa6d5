"""How much work a function does, counted: no clock, so that it is the same on every machine."""

import sys
from collections.abc import Callable
from types import FrameType
from typing import Any, SupportsIndex


class Counted(str):
    """A text that counts, for all of its kind, the characters that were copied from it or looked through."""

    characters = 0

    __slots__ = ()

    def __getitem__(self, key: SupportsIndex | slice) -> "Counted":
        part = super().__getitem__(key)
        Counted.characters += len(part)
        return Counted(part)

    def find(self, wanted: str, start: Any = 0, end: Any = None) -> int:
        found = super().find(wanted, start, end)
        stop = len(self) if end is None else min(end, len(self))
        Counted.characters += max(0, (stop if found < 0 else found) - start) + len(wanted)
        return found

    def rfind(self, wanted: str, start: Any = 0, end: Any = None) -> int:
        found = super().rfind(wanted, start, end)
        stop = len(self) if end is None else min(end, len(self))
        Counted.characters += max(0, stop - (start if found < 0 else found)) + len(wanted)
        return found

    def startswith(self, prefix: Any, start: Any = 0, end: Any = None) -> bool:
        Counted.characters += len(prefix)
        return super().startswith(prefix, start, end)


def work(function: Callable[[], object]) -> int:
    """Lines of Python that a call runs, each turn of a loop counted, and characters of `Counted` texts."""
    lines = 0

    def trace(_: FrameType, event: str, __: object) -> Any:
        nonlocal lines
        lines += event == "line"
        return trace

    Counted.characters = 0
    before = sys.gettrace()
    sys.settrace(trace)
    try:
        function()
    finally:
        sys.settrace(before)
    return lines + Counted.characters
