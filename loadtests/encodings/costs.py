"""What turns and path integrals cost, as it was measured."""

from dataclasses import dataclass
from pathlib import Path

from loadtests.cost_table import CostTable
from loadtests.encodings.figures import FOLDER
from loadtests.results import markdown


@dataclass(frozen=True, slots=True)
class Cost:
    """A measurement: the `file` that its command leaves beside the plots, and what its table shows."""

    file: str
    command: str
    text: str

    def paragraphs(self, docs: Path) -> tuple[str, ...]:
        """What it shows and its table; where it was not made, how to make it."""
        table = CostTable.read(docs / FOLDER / self.file)
        if table is None:
            command = f".venv/bin/python -m {self.command} --out docs/{FOLDER}/{self.file}"
            return self.text, f"**Not measured yet.** `{command}`"
        return self.text, f"{table.title}:", markdown.table(table.head, table.rows)


COSTS = (
    Cost(
        "turn_cost.json",
        "loadtests.encodings_cost",
        "The closed exponential of a rank-two generator costs a token O(width), as RoPE does, and forms no\n"
        'matrix. "Power" is that of the width by which a cost grows between a row\'s two largest widths; at\n'
        "small ones a call costs more than its arithmetic.",
    ),
    Cost(
        "path_cost.json",
        "loadtests.path_cost",
        "The path integral is refused. What it would cost a head beside its attention, by the reference in\n"
        "float64: one query is a step of decoding, many are a chunk of a prompt. For a chunk it needs a\n"
        "number for every pair, which attention's kernels never hold.",
    ),
)


def costs(docs: Path) -> str:
    """The section on costs, in Markdown."""
    return "\n\n".join(("## Cost", *(part for cost in COSTS for part in cost.paragraphs(docs))))
