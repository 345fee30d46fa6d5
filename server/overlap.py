"""Keeps what is measured apart from what was chosen by other samples."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import chain, product

from server.pools.pool import Family, Pool, Tag
from server.samples import POOLS, Split

_SHOWN = 5


@dataclass(frozen=True, slots=True)
class SampleSet:
    """All samples of a split that are drawn by one seed."""

    split: Split
    seed: int


class OverlapError(Exception):
    """Two sets of samples have something in common; `shared` says what, by what it is."""

    def __init__(self, first: SampleSet, second: SampleSet, shared: Mapping[str, tuple[str, ...]]) -> None:
        self.shared = shared
        listed = "; ".join(f"{kind}: {_listed(found)}" for kind, found in shared.items())
        super().__init__(
            f"Samples of {first.split} with seed {first.seed} and of {second.split} with seed {second.seed} "
            f"have parts in common, so one would be judged by what the other was fitted to. {listed}."
        )


def check_disjoint(first: SampleSet, second: SampleSet) -> None:
    """Raises OverlapError where two sets share split and seed, books, names, templates, values or things."""
    shared = overlap(POOLS[first.split], POOLS[second.split])
    if first == second:
        shared = {"split and seed": (f"{first.split} {first.seed}",), **shared}
    if shared:
        raise OverlapError(first, second, shared)


def overlap(first: Pool, second: Pool) -> dict[str, tuple[str, ...]]:
    """What two pools have in common, by what it is; names count word by word, letters in either case."""
    ours, theirs = _parts(first), _parts(second)
    shared = {kind: tuple(sorted(ours[kind] & theirs[kind])) for kind in ours}
    shared["numbers"] = tuple(
        f"{max(one.start, other.start)} to {min(one.stop, other.stop) - 1}"
        for one, other in product(_ranges(first), _ranges(second))
        if max(one.start, other.start) < min(one.stop, other.stop)
    )
    return {kind: found for kind, found in shared.items() if found}


def _parts(pool: Pool) -> dict[str, frozenset[str]]:
    names = [*pool.names, *(name for subject in pool.subjects for name in subject.names)]
    return {
        "books": frozenset(pool.books),
        "names": frozenset(word.casefold() for name in names for word in name.split()),
        "templates": frozenset(_templates(pool)),
        "values": frozenset(value.casefold() for value in _words(pool)),
        "things": frozenset(chain(pool.things, *pool.things.values())),
    }


def _templates(pool: Pool) -> Iterator[str]:
    for tag in pool.tags:
        yield from (tag.told, tag.asked, tag.lead_in)
    for family in pool.families:
        yield from (family.told, family.asked, family.asked_for_all)
    for subject in pool.subjects:
        yield from subject.openings
        for relation in subject.relations:
            yield from (relation.told, relation.asked)


def _words(pool: Pool) -> Iterator[str]:
    for family in pool.families:
        if not isinstance(family.values, range):
            yield from family.values
    for subject in pool.subjects:
        for relation in subject.relations:
            yield from relation.values


def _ranges(pool: Pool) -> set[range]:
    given: list[Family | Tag] = [*pool.families, *pool.tags]
    return {one.values for one in given if isinstance(one.values, range)}


def _listed(found: tuple[str, ...]) -> str:
    more = f" and {len(found) - _SHOWN} more" if len(found) > _SHOWN else ""
    return ", ".join(found[:_SHOWN]) + more
