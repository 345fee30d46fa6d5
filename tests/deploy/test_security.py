"""docs/security.md names tests that exist, and the limits as they are."""

import ast
import re
from pathlib import Path

from server.limits import Limits

ROOT = Path(__file__).resolve().parents[2]
DOCUMENT = (ROOT / "docs" / "security.md").read_text(encoding="utf-8")


def test_every_test_that_is_named_exists() -> None:
    named = re.findall(r"`(tests/[\w/]+\.py)::(\w+)`", DOCUMENT)
    assert len(named) > 30
    for path, name in named:
        tree = ast.parse((ROOT / path).read_text(encoding="utf-8"))
        functions = {node.name for node in tree.body if isinstance(node, ast.FunctionDef)}
        assert name in functions, f"{path} has no {name}"


def test_every_limit_is_named_by_its_flag() -> None:
    flags = {field.metadata["flag"] for field in Limits.__dataclass_fields__.values()}
    assert flags == set(re.findall(r"`(--max-(?!model|num)[\w-]+)`", DOCUMENT))
