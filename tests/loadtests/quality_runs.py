"""Small result files of quality runs, as tests need them."""

import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from loadtests.quality.cells import Cells
from loadtests.quality.observations import read

TASKS = ("single", "qa")
METHODS: Mapping[str, tuple[int, ...]] = {"plain": (500, 2000), "qgpm": (500, 2000), "gold": (500, 2000)}


def line(method: str, number: int, logprob: float, **changed: Any) -> dict[str, Any]:
    """One observation of `single` at 500 tokens, unless told otherwise."""
    return {
        "task": "single",
        "length": 500,
        "number": number,
        "depth": 0.5,
        "method": method,
        "logprob": logprob,
        "tokens": 3,
        "correct": 0.0,
        "output": "Brack",
        "prompt_tokens": 550,
        "cached_tokens": 0,
        "mode": "plain" if method == "plain" else "qgpm",
        "reason": None,
        "evidence_rank": None,
        "confidence": None,
        "seconds": 0.4,
        **changed,
    }


def setting(
    tasks: Iterable[str] = TASKS, methods: Mapping[str, tuple[int, ...]] = METHODS, **more: Any
) -> dict[str, Any]:
    """The first line: a seed and the grid."""
    return {"seed": 7, **more, "grid": {"tasks": list(tasks), "methods": dict(methods)}}


def write(path: Path, *lines: Mapping[str, Any]) -> Path:
    """A result file of these lines, the setting first."""
    path.write_text("".join(json.dumps(entry) + "\n" for entry in lines), encoding="utf-8")
    return path


def cells(folder: Path, *lines: Mapping[str, Any]) -> Cells:
    """The cells of a file of these lines."""
    return Cells(read(write(folder / "quality.jsonl", *lines)))
