"""Every drill by name, in the order in which they run."""

from collections.abc import Mapping

from loadtests.drills import (
    cache_full,
    clock_jumps,
    disconnects,
    disk_full,
    salts,
    server_killed,
    soak,
    worker_killed,
)
from loadtests.drills.check import Drill

SOAK = soak.DRILL.name
DRILLS: Mapping[str, Drill] = {
    module.DRILL.name: module.DRILL
    for module in (
        worker_killed,
        server_killed,
        cache_full,
        disconnects,
        clock_jumps,
        disk_full,
        salts,
        soak,
    )
}
