"""A helper that cannot be compiled runs as it is; a model that cannot is an error."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

PROGRAM = """
import sys, torch
from cache.compilation import forgive_failures

@torch.compile(fullgraph=sys.argv[1] == "model")
def above(rows):
    return (rows > 0).sum(-1)

forgive_failures()
print(above(torch.tensor([[1.0, 2.0, -1.0]])).tolist())
"""


def run(what: str, folder: Path) -> "subprocess.CompletedProcess[str]":
    """Call the function where there is no compiler."""
    env = {**os.environ, "CXX": str(folder / "none"), "TORCHINDUCTOR_CACHE_DIR": str(folder / "inductor")}
    root = Path(__file__).parents[2]
    return subprocess.run(
        [sys.executable, "-c", PROGRAM, what], cwd=root, env=env, capture_output=True, text=True, timeout=600
    )


@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere another compiler is found")
def test_a_helper_runs_where_there_is_no_compiler(tmp_path: Path) -> None:
    done = run("helper", tmp_path)
    assert (done.returncode, done.stdout) == (0, "[2]\n")


@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere another compiler is found")
def test_a_whole_graph_that_cannot_be_compiled_is_an_error(tmp_path: Path) -> None:
    done = run("model", tmp_path)
    assert done.returncode != 0
    assert "No working C++ compiler" in done.stderr
