"""An engine core does not outlive the process that it works for."""

import multiprocessing
import os
import signal
import threading
import time
from multiprocessing.connection import wait

_GRACE_SECONDS = 10.0


def follow_parent(grace: float = _GRACE_SECONDS) -> None:
    """End this process soon after the one that started it, however that ended; returns at once.

    vLLM's own core would wait for ever for a server that was killed, and keep its memory. It is told by
    SIGTERM, so that it ends its workers and frees what they share, and is gone after `grace` seconds in any
    case. Nothing happens in a process that was not started by `multiprocessing`.
    """
    parent = multiprocessing.parent_process()
    if parent is not None:
        threading.Thread(target=_follow, args=(parent.sentinel, grace), daemon=True).start()


def _follow(sentinel: int, grace: float) -> None:
    wait([sentinel])
    os.kill(os.getpid(), signal.SIGTERM)
    time.sleep(grace)
    os._exit(1)
