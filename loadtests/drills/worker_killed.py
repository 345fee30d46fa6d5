"""A worker is killed while it computes."""

from collections.abc import Mapping

import psutil

from loadtests.drills.check import Drill, Findings, Say
from loadtests.drills.death import Death
from loadtests.drills.subject import Subject
from server.child import Server


def run(subject: Subject, sizes: Mapping[str, float], say: Say) -> Findings:
    """The last worker of several, or the engine core, in which a lone worker lives."""
    flags = ("--tensor-parallel-size", str(subject.ranks)) if subject.ranks > 1 else ()
    findings = Death(_worker, flags, status=1).run(subject, sizes, say)
    findings.figures["ranks"] = subject.ranks
    return findings


def _worker(server: Server) -> psutil.Process:
    children = psutil.Process(server.pid).children(recursive=True)
    for name in ("Worker", "EngineCore"):
        if found := [child for child in children if name in " ".join([child.name(), *child.cmdline()])]:
            return found[-1]
    raise LookupError(f"no worker among {[child.name() for child in children]}")


DRILL = Drill("worker", "kill -9 of a worker under load, then a start at the same address", run)
