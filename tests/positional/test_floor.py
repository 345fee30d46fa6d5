"""The lowest floor: `positional` needs neither the engine nor the server."""

import subprocess
import sys

MODULES = (
    "attention",
    "coordinates",
    "encodings.registry",
    "evidence_count",
    "masks",
    "modulation",
    "phases",
    "planes",
    "profile",
    "qgpm",
    "relevance",
    "sources.fusion",
    "sources.lexical",
    "sources.similarity",
    "warped_attention",
    "warps",
)


def test_positional_imports_nothing_of_the_floors_above() -> None:
    code = f"""
import importlib, sys
for module in {MODULES!r}:
    importlib.import_module("positional." + module)
above = ("vllm", "fastapi", "pydantic_settings", "cache", "server")
print(sorted(name for name in sys.modules if name.partition(".")[0] in above))
"""
    result = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", code], capture_output=True, text=True, check=True
    )
    assert result.stdout.strip() == "[]"
