"""The pulse tells for how long requests that run have made no progress."""

import asyncio
import logging
from collections.abc import Sequence

import pytest
from vllm.v1.engine.exceptions import EngineDeadError

from server import pulse as module
from server.pulse import Pulse


class Clock:
    """A clock that goes when it is told."""

    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


class Core:
    """An engine core that answers `told`: tokens computed, requests not finished."""

    def __init__(self) -> None:
        self.told: list[int] = [0, 0]

    async def __call__(self) -> Sequence[int]:
        return self.told


async def test_an_idle_engine_that_answers_has_no_stall() -> None:
    clock, core = Clock(), Core()
    pulse = Pulse(core, clock)
    before = pulse.heard
    await pulse.look()
    assert (before, pulse.heard) == (False, True)
    clock.now += 1000
    assert pulse.seconds_since_progress() == 0


async def test_every_computed_token_is_progress_also_of_a_prompt() -> None:
    clock, core = Clock(), Core()
    pulse = Pulse(core, clock)
    for computed in (128, 256, 384):
        core.told = [computed, 1]
        clock.now += 10
        await pulse.look()
        assert pulse.seconds_since_progress() == 0
    clock.now += 3
    assert pulse.seconds_since_progress() == 3


async def test_requests_that_wait_while_nothing_is_computed_are_a_stall_although_the_core_answers() -> None:
    clock, core = Clock(), Core()
    core.told = [128, 2]
    pulse = Pulse(core, clock)
    await pulse.look()
    for seconds in (10, 20, 30):
        clock.now += 10
        await pulse.look()
        assert pulse.seconds_since_progress() == seconds
    core.told = [129, 2]
    await pulse.look()
    assert pulse.seconds_since_progress() == 0


async def test_clients_that_give_up_and_come_again_do_not_hide_a_stall() -> None:
    clock, core = Clock(), Core()
    core.told = [128, 2]
    pulse = Pulse(core, clock)
    await pulse.look()
    for unfinished in (1, 3, 1):
        core.told = [128, unfinished]
        clock.now += 20
        await pulse.look()
    assert pulse.seconds_since_progress() == 60


async def test_a_core_that_does_not_answer_is_a_stall_also_without_requests() -> None:
    clock = Clock()
    answer = asyncio.Event()

    async def ask() -> Sequence[int]:
        await answer.wait()
        return (0, 0)

    pulse = Pulse(ask, clock)
    looking = asyncio.create_task(pulse.look())
    await asyncio.sleep(0)
    clock.now += 45
    assert pulse.seconds_since_progress() == 45
    answer.set()
    await looking
    assert pulse.seconds_since_progress() == 0


async def test_watching_survives_a_core_that_refuses_and_ends_with_a_dead_one(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(module, "INTERVAL_SECONDS", 0)
    answers: list[Exception] = [RuntimeError("Server shutting down"), EngineDeadError()]

    async def ask() -> Sequence[int]:
        raise answers.pop(0)

    clock = Clock()
    pulse = Pulse(ask, clock)
    # A library under test elsewhere may have configured logging anew, which switches earlier loggers off.
    monkeypatch.setattr(logging.getLogger("ropeway.pulse"), "disabled", False)
    with caplog.at_level(logging.WARNING, "ropeway.pulse"):
        await pulse.watch()
    assert answers == []
    assert "Server shutting down" in caplog.text
    clock.now += 7
    assert pulse.seconds_since_progress() == 7
