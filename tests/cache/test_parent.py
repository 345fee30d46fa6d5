"""A process that follows its parent ends when that is killed."""

import multiprocessing
import os
import signal
import time
from multiprocessing.connection import Connection

import psutil
import pytest

from cache.parent import follow_parent

_SPAWN = multiprocessing.get_context("spawn")


def _core(heeds: bool, told: Connection) -> None:
    if not heeds:
        signal.signal(signal.SIGTERM, lambda *_: None)
    follow_parent(grace=0.1)
    told.send(os.getpid())
    while True:
        time.sleep(0.05)


def _server(heeds: bool, told: Connection) -> None:
    _SPAWN.Process(target=_core, args=(heeds, told)).start()
    time.sleep(600)


@pytest.mark.parametrize("heeds", [True, False], ids=["ends by SIGTERM", "ignores SIGTERM"])
def test_a_core_ends_with_its_server(heeds: bool) -> None:
    here, there = _SPAWN.Pipe()
    server = _SPAWN.Process(target=_server, args=(heeds, there))
    server.start()
    core = psutil.Process(here.recv())
    assert core.is_running()
    server.kill()
    server.join()
    core.wait(timeout=60)
    assert not core.is_running()


def test_a_process_that_nobody_started_follows_nobody() -> None:
    follow_parent(grace=0)
    assert multiprocessing.parent_process() is None
