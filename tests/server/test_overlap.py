import dataclasses
from itertools import combinations

import pytest

from server.overlap import OverlapError, SampleSet, check_disjoint, overlap
from server.pools.pool import Pool, Tag
from server.samples import POOLS, SPLITS, Split


@pytest.mark.parametrize(("first", "second"), list(combinations(SPLITS, 2)))
def test_the_splits_have_nothing_in_common(first: Split, second: Split) -> None:
    assert overlap(POOLS[first], POOLS[second]) == {}
    check_disjoint(SampleSet(first, 0), SampleSet(second, 0))


@pytest.mark.parametrize("split", SPLITS)
def test_a_set_overlaps_itself_in_everything(split: Split) -> None:
    with pytest.raises(OverlapError) as caught:
        check_disjoint(SampleSet(split, 3), SampleSet(split, 3))

    assert set(caught.value.shared) == {
        "split and seed",
        "books",
        "names",
        "templates",
        "values",
        "things",
        "numbers",
    }
    assert f"{split} 3" in str(caught.value)


def test_another_seed_of_the_same_split_still_shares_its_books_and_templates() -> None:
    with pytest.raises(OverlapError, match="books: ") as caught:
        check_disjoint(SampleSet("evaluation", 0), SampleSet("evaluation", 1))

    assert "split and seed" not in caught.value.shared
    assert caught.value.shared["books"] == tuple(sorted(POOLS["evaluation"].books))


def test_what_overlaps_is_listed_and_the_rest_counted() -> None:
    with pytest.raises(OverlapError) as caught:
        check_disjoint(SampleSet("tuning", 0), SampleSet("tuning", 1))

    assert "books: 2 Kings, 2 Samuel, Esther, Jonah, Mark and 3 more" in str(caught.value)


@pytest.mark.parametrize(
    ("changed", "kind", "shared"),
    [
        ({"books": ("Job", "Ruth")}, "books", "Ruth"),
        ({"names": ("MAUD",)}, "names", "maud"),
        # The first name of somebody in a paragraph.
        ({"names": ("Freya",)}, "names", "freya"),
        (
            {"tags": (Tag("A {thing} has {value}", "What is the worth of the {kind}?", "It is", range(9)),)},
            "templates",
            "What is the worth of the {kind}?",
        ),
        ({"things": {"pastry": ("Strudel", "owl")}}, "things", "owl"),
        (
            {"families": (dataclasses.replace(POOLS["calibration"].families[0], values=("otter",)),)},
            "values",
            "otter",
        ),
        (
            {
                "families": (
                    dataclasses.replace(POOLS["calibration"].families[0], values=range(9, 1_000_001)),
                )
            },
            "numbers",
            "1000000 to 1000000",
        ),
    ],
)
def test_every_part_in_common_is_found(changed: dict[str, tuple[str, ...]], kind: str, shared: str) -> None:
    pool: Pool = dataclasses.replace(POOLS["calibration"], **changed)  # type: ignore[arg-type]
    assert overlap(pool, POOLS["tuning"]) == {kind: (shared,)}
