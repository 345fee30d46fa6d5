"""What the heads made of the evidence, and what QGPM was worth where they ranked it first."""

from collections import Counter

from loadtests.quality import notation
from loadtests.quality.cells import Cells, Comparison
from loadtests.quality.ranks import ranking
from loadtests.results import markdown

METHOD = "qgpm"


def ranks(cells: Cells) -> str:
    """A row for each cell that tells ranks; nothing where none does."""
    rows = []
    for task in cells.tasks:
        for length in cells.lengths:
            found = ranking(cells, task, length, METHOD)
            if found is None:
                continue
            shares = (f"{100 * found.first_share:.0f} %", f"{found.mrr:.2f}")
            rows.append(
                (
                    f"{task} at {length:,}",
                    str(found.count),
                    *shares,
                    _beside(found.first),
                    _beside(found.later),
                )
            )
    if not rows:
        return ""
    head = ("cell", "n", "ranked first", "mean reciprocal rank", "nats where first", "nats where later")
    return "\n\n".join(
        (
            "### What the heads rank",
            "The rank of the best gold sentence among all sentences, and QGPM less plain on the samples "
            "where it came first and where it did not:",
            markdown.table(head, rows),
        )
    )


def answered_plainly(cells: Cells) -> str:
    """How often a request that asked for QGPM was answered plainly, and why; nothing where it never was."""
    asked = [seen for seen in cells.run.observations if seen.method == METHOD]
    reasons = Counter(seen.reason or "no reason given" for seen in asked if seen.mode == "plain")
    if not reasons:
        return ""
    listed = "; ".join(f"{reason} ({count})" for reason, count in sorted(reasons.items()))
    return f"Of {len(asked)} QGPM requests {reasons.total()} were answered plainly: {listed}."


def _beside(side: Comparison | None) -> str:
    return notation.NOTHING if side is None else f"{notation.interval(side.logprob)}, n {side.pairs}"
