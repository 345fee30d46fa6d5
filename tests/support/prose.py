"""Deterministic English-like text: what tokenizers are trained on and what test prompts are made of."""

import random

_SUBJECTS = (
    "the old miller", "a young doctor", "our captain", "the quiet librarian", "Mr. Harding", "a grey heron",
    "the second engineer", "her neighbour", "the last guest",
    "a travelling painter", "the gardener", "Dr. Vance",
)  # fmt: skip
_VERBS = (
    "carried", "forgot", "painted", "sold", "repaired", "described", "hid", "counted", "found", "borrowed",
    "remembered", "polished", "measured", "followed",
)  # fmt: skip
_OBJECTS = (
    "a copper kettle", "the northern bridge", "seven letters", "the broken clock", "a basket of pears",
    "the map of the harbour", "two silver spoons", "the winter timetable", "a wooden violin", "the ledger",
    "an empty birdcage", "the lighthouse key",
)  # fmt: skip
_PLACES = (
    "near the river", "in Port Ellen", "behind the mill", "at the market", "on platform 3",
    "under the stairs", "beside the chapel", "in the attic", "before breakfast", "after the storm",
    "in 1894", "for 12 shillings",
)  # fmt: skip


def sentence(generator: random.Random) -> str:
    """One sentence of about ten words, ending in a full stop, question or exclamation mark."""
    words = " ".join(generator.choice(part) for part in (_SUBJECTS, _VERBS, _OBJECTS, _PLACES))
    if generator.random() < 0.3:
        words += f", and {generator.choice(_SUBJECTS)} {generator.choice(_VERBS)} it"
    return words[0].upper() + words[1:] + generator.choice("....!?")


def document(sentences: int, seed: int) -> str:
    """`sentences` sentences parted by one space; the same seed gives the same text."""
    generator = random.Random(seed)
    return " ".join(sentence(generator) for _ in range(sentences))
