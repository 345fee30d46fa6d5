import asyncio
import os
import signal

import pytest

from server.interruption import interruptible


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_interrupts_a_run_once(number: signal.Signals) -> None:
    with interruptible():
        with pytest.raises(KeyboardInterrupt):
            os.kill(os.getpid(), number)
        # What is being ended now must not be disturbed.
        os.kill(os.getpid(), signal.SIGINT)
        os.kill(os.getpid(), signal.SIGTERM)


def test_what_is_awaited_is_interrupted_and_cleaned_up() -> None:
    ended = []

    async def asks() -> None:
        try:
            os.kill(os.getpid(), signal.SIGTERM)
            await asyncio.sleep(60)
        finally:
            ended.append(True)

    with interruptible(), pytest.raises(KeyboardInterrupt):
        asyncio.run(asks())
    assert ended == [True]


def test_signals_mean_afterwards_what_they_meant_before() -> None:
    before = signal.getsignal(signal.SIGINT), signal.getsignal(signal.SIGTERM)
    with interruptible(), pytest.raises(KeyboardInterrupt):
        os.kill(os.getpid(), signal.SIGINT)
    assert (signal.getsignal(signal.SIGINT), signal.getsignal(signal.SIGTERM)) == before
