"""A small sample, as tests of the quality harness need it."""

from typing import Any

from server.samples import Sample

GOLD = "The locker of Elke opens with the number 4711."
CONTEXT = (
    "In those days the river rose. Nobody crossed it for a week. "
    f"{GOLD} The miller counted his sacks twice. Then the rain ended."
)
QUESTION = "Question: Which number opens the locker of Elke?"


def small_sample(context: str = CONTEXT, **changed: Any) -> Sample:
    """A question about one gold sentence in the middle of a short context."""
    fields = {
        "kind": "single",
        "length": 500,
        "messages": (("user", f"Read the text.\n\n{context}\n\n{QUESTION}"),),
        "question": QUESTION,
        "context": context,
        "evidence": (GOLD,),
        "answers": ("4711",),
        "lead_in": "The locker of Elke opens with",
        "depth": 0.5,
    }
    return Sample(**{**fields, **changed})
