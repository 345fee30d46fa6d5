"""How many sentences are evidence, by the relevance alone."""

from dataclasses import replace

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from positional.evidence_count import evidence_count, widened
from positional.qgpm import PACKAGE_DEFAULTS


@pytest.mark.parametrize(
    ("z", "most", "expected"),
    [
        ([9, 8, 8, 8, 1, 0], 6, 4),  # the largest fall
        ([9, 1, 0.9, 0.8], 4, 1),
        ([9, 8, 7, 1], 2, 1),  # of equal falls the first
        ([5, 5, 5, 0, 0], 2, 3),  # a tie is kept whole
        ([3, 3], 9, 1),  # but not where that were every sentence
        ([3], 1, 1),
    ],
)
def test_evidence_ends_where_relevance_falls_furthest(z: list[float], most: int, expected: int) -> None:
    shuffled = torch.tensor(z, dtype=torch.float64)[torch.randperm(len(z))]
    assert evidence_count(shuffled, most) == expected


@settings(max_examples=200)
@given(st.lists(st.integers(0, 6), min_size=1, max_size=20), st.integers(1, 12))
def test_the_count_parts_equal_sentences_only_where_all_below_are_equal(values: list[int], most: int) -> None:
    z = torch.tensor(values, dtype=torch.float64)
    count = evidence_count(z, most)
    assert 1 <= count <= len(values)
    ordered = sorted(values, reverse=True)
    if count < len(values) and ordered[count - 1] == ordered[count]:
        assert ordered[count] == ordered[-1]


def test_four_values_are_held_by_a_centre_meant_for_three() -> None:
    config = replace(PACKAGE_DEFAULTS, k_sharp=3, k_broad=4)
    z = torch.tensor([0.1, 3.0, 0.0, 2.9, 0.2, 2.8, 2.7, -0.1], dtype=torch.float64)
    found = widened(config, z)
    assert (found.k_sharp, found.k_broad) == (4, 5)
    assert replace(found, k_sharp=3, k_broad=4) == config


def test_what_merely_resembles_the_evidence_is_not_kept_with_it() -> None:
    config = replace(PACKAGE_DEFAULTS, k_sharp=3, k_broad=4)
    # One fact among eight of its kind, and text of another kind.
    z = torch.tensor([3.2, *[1.5] * 7, *[-0.6] * 20], dtype=torch.float64)
    assert widened(config, z).k_sharp == 3
    # A fall of less than half the furthest parts nothing.
    z = torch.tensor([3.0, 2.9, 2.8, 2.7, 1.8, *[-0.6] * 20], dtype=torch.float64)
    assert widened(config, z).k_sharp == 5


def test_one_value_leaves_the_centres_alone() -> None:
    z = torch.tensor([5.0] + [0.0] * 30, dtype=torch.float64)
    assert widened(PACKAGE_DEFAULTS, z) == PACKAGE_DEFAULTS
    assert widened(PACKAGE_DEFAULTS, z[:3]) == PACKAGE_DEFAULTS
