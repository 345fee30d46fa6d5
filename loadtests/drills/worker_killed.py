"""A worker is killed while it computes."""

from collections.abc import Mapping

import psutil

from loadtests.drills.check import Drill, Findings, Say
from loadtests.drills.death import Death
from loadtests.drills.subject import Subject
from server.child import Server


def run(subject: Subject, sizes: Mapping[str, float], say: Say) -> Findings:
    """The server ends by itself, with a failure, so that its supervisor starts it again."""
    return Death(_worker, status=1).run(subject, sizes, say)


def _worker(server: Server) -> psutil.Process:
    children = psutil.Process(server.pid).children(recursive=True)
    (worker,) = [child for child in children if "Worker" in " ".join([child.name(), *child.cmdline()])]
    return worker


DRILL = Drill("worker", "kill -9 of the worker under load, then a start at the same address", run)
