"""Ctrl-C and SIGTERM: both end a run in one way, which lets child servers end too."""

import signal
from collections.abc import Iterator
from contextlib import contextmanager

_SIGNALS = (signal.SIGINT, signal.SIGTERM)


@contextmanager
def interruptible() -> Iterator[None]:
    """Let the first of these signals raise KeyboardInterrupt, and ignore further ones until the block ends.

    A second one would leave servers behind that are just told to end. To be entered on the main thread.
    """
    before = {number: signal.getsignal(number) for number in _SIGNALS}

    def interrupt(*_: object) -> None:
        for number in _SIGNALS:
            signal.signal(number, signal.SIG_IGN)
        raise KeyboardInterrupt

    for number in _SIGNALS:
        signal.signal(number, interrupt)
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
