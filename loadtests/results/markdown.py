"""Markdown: tables, lists, plots, and what a measurement ran on."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from loadtests.results.drawing import Plot


def table(head: Sequence[str], rows: Iterable[Sequence[str]], texts: int = 1) -> str:
    """A table; bars in cells are escaped. The first `texts` columns are text, the others numbers."""
    lines = [head, [*["---"] * texts, *["--:"] * (len(head) - texts)], *rows]
    return "\n".join("| " + " | ".join(_cell(cell) for cell in line) + " |" for line in lines)


def bullets(items: Iterable[str]) -> str:
    """A list."""
    return "\n".join(f"- {item}" for item in items)


def picture(plot: Plot, folder: str) -> str:
    """A plot with its alternative text."""
    return f"![{_alt(plot.alt)}]({folder}/{plot.name})"


def folded(summary: str, text: str) -> str:
    """What a reader opens only if wanted."""
    return f"<details>\n<summary>{summary}</summary>\n\n{text}\n\n</details>"


def setting(values: Mapping[str, Any], without: Iterable[str] = ()) -> str:
    """Every value of a measurement's setting under its name."""
    left_out = set(without)
    return bullets(f"{name}: {value(entry)}" for name, entry in values.items() if name not in left_out)


def value(entry: Any) -> str:
    """One value of a setting in a line: objects by name, lists by commas, null as none."""
    match entry:
        case dict():
            return "; ".join(f"{name} {value(inner)}" for name, inner in entry.items()) or "none"
        case list() | tuple():
            return ", ".join(value(inner) for inner in entry) or "none"
        case bool():
            return "yes" if entry else "no"
        case None:
            return "none"
        case int():
            return str(entry)
        case float():
            return f"{entry:g}"
        case _:
            return str(entry)


def _cell(text: str) -> str:
    return text.replace("|", "\\|")


def _alt(text: str) -> str:
    return text.replace("[", "(").replace("]", ")")
