"""What a process and its children hold."""

import os
import subprocess
import sys

import pytest

from loadtests.drills.held import held_bytes

MIB = 2**20


def held() -> int:
    return sum(held_bytes(os.getpid()).values())


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_memory_of_a_child_counts() -> None:
    before = held()
    # Written to, page by page, or the kernel would give one page of zeros for all of them.
    code = "import sys; held = bytearray(b'x') * {}; print(len(held), flush=True); sys.stdin.read()"
    child = subprocess.Popen(
        [sys.executable, "-c", code.format(64 * MIB)], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    assert child.stdout is not None
    child.stdout.readline()
    during = held()
    child.communicate()
    assert during - before > 60 * MIB
    assert held() - before < 32 * MIB
