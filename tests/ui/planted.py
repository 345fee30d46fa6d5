"""A document of about 3,000 tokens with a fact in its midst, and the question that asks for it."""

from tests.support.prose import document

FACT = "The password of the harbour office is Marigold-417."
QUESTION = "What is the password of the harbour office?"
SENTENCES = 218


def planted() -> str:
    """Prose, the fact, prose."""
    halves = document(SENTENCES // 2, seed=3), document(SENTENCES // 2, seed=4)
    return f"{halves[0]} {FACT} {halves[1]}"
