"""The server itself is killed while it answers."""

from collections.abc import Mapping

import psutil

from loadtests.drills.check import Drill, Findings, Say
from loadtests.drills.death import Death
from loadtests.drills.subject import Subject
from server.child import Server


def run(subject: Subject, sizes: Mapping[str, float], say: Say) -> Findings:
    """Its main process, as the kernel does that is out of memory; nobody tells the engine core."""
    return Death(_main, status=None).run(subject, sizes, say)


def _main(server: Server) -> psutil.Process:
    return psutil.Process(server.pid)


DRILL = Drill("server", "kill -9 of the server under load, then a start at the same address", run)
