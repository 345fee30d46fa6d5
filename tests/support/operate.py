"""The tables of docs/operate.md."""

from pathlib import Path

OPERATE = Path(__file__).parents[2] / "docs" / "operate.md"


def rows(heading: str) -> list[list[str]]:
    """The cells of all tables below a heading, without the tables' heads."""
    section = OPERATE.read_text().split(f"\n## {heading}\n")[1].split("\n## ")[0]
    lines = [line for line in section.splitlines() if line.startswith("|")]
    heads = [index for index, line in enumerate(lines) if set(line) <= set("|-")]
    body = [line for index, line in enumerate(lines) if index not in heads and index + 1 not in heads]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in body]
