"""A question that one of many like paragraphs answers, as over retrieved documents.

All words are the project's own.
"""

import random
from collections.abc import Callable

from server.needles import Needles
from server.pools.pool import Pool, Relation, Subject

OTHER_RELATIONS = 4
LEAST = 3


def paragraphs(pool: Pool, tokens: int, count_tokens: Callable[[str], int], draw: random.Random) -> Needles:
    """Paragraphs on things of one kind, which together hold about so many tokens, the gold one first.

    Every paragraph has the asked relation, only the gold one with its value.
    """
    subject = draw.choice(pool.subjects)
    asked = draw.choice(subject.relations)
    gold = draw.choice(asked.values)
    others = [value for value in asked.values if value != gold]
    names = draw.sample(subject.names, len(subject.names))
    texts = [_paragraph(subject, asked, names[0], gold, draw)]
    held = count_tokens(texts[0])
    for name in names[1:]:
        if len(texts) >= LEAST and held >= tokens:
            break
        texts.append(_paragraph(subject, asked, name, draw.choice(others), draw))
        held += count_tokens(texts[-1])
    return Needles(
        texts=tuple(texts),
        evidence=(_told(asked, names[0], gold),),
        question=asked.asked.format(name=names[0]),
        answers=(gold,),
        lead_in=asked.told.partition("{value}")[0].format(short=names[0].split()[-1]).rstrip(),
    )


def _paragraph(subject: Subject, asked: Relation, name: str, value: str, draw: random.Random) -> str:
    """An opening, the asked relation among others, and one of the others last."""
    others = draw.sample([relation for relation in subject.relations if relation != asked], OTHER_RELATIONS)
    told = [_told(relation, name, draw.choice(relation.values)) for relation in others]
    # Never last: a token that holds the line break gives no signal.
    told.insert(draw.randrange(len(told)), _told(asked, name, value))
    return " ".join([draw.choice(subject.openings).format(name=name) + ".", *told])


def _told(relation: Relation, name: str, value: str) -> str:
    return relation.told.format(short=name.split()[-1], value=value) + "."
