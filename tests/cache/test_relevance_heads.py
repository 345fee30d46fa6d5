from dataclasses import replace

import pytest

from cache.plan import Layer, LayerPlan
from cache.relevance_heads import TappedLayer, check_heads, tapped_layers
from cache.unsupported import UnsupportedModelError
from positional.coordinates import MapName
from positional.profile import Profile

PROFILE = Profile.rope(10_000.0, 8)
HEADS = ((5, 1), (2, 6), (5, 0), (2, 7), (3, 3), (5, 5))


def layer(index: int, window: int | None, name: MapName) -> Layer:
    return Layer(index, f"model.layers.{index}.self_attn.attn", window, PROFILE, name)


def test_one_rank_taps_all_heads_by_layer() -> None:
    assert tapped_layers(HEADS, 8, 4, 0) == (
        TappedLayer(2, (6, 7), (1,), (1, 3)),
        TappedLayer(3, (3,), (0,), (4,)),
        TappedLayer(5, (1, 0, 5), (0, 1), (0, 2, 5)),
    )


def test_two_ranks_share_the_list_by_their_own_numbers() -> None:
    first, second = (tapped_layers(HEADS, 4, 2, rank) for rank in (0, 1))
    assert first == (TappedLayer(3, (3,), (1,), (4,)), TappedLayer(5, (1, 0), (0,), (0, 2)))
    assert second == (TappedLayer(2, (2, 3), (1,), (1, 3)), TappedLayer(5, (1,), (0,), (5,)))


@pytest.mark.parametrize("ranks", [1, 2, 4, 8])
def test_every_column_is_read_on_exactly_one_rank(ranks: int) -> None:
    per_rank = 8 // ranks
    columns = [
        column
        for rank in range(ranks)
        for tapped in tapped_layers(HEADS, per_rank, min(4, per_rank), rank)
        for column in tapped.columns
    ]
    assert sorted(columns) == list(range(len(HEADS)))


def test_a_query_head_reads_the_key_head_of_its_group() -> None:
    tapped = TappedLayer(0, (2, 7, 9), (0, 2, 3), (0, 1, 2))
    assert [tapped.kv_row(head, 3) for head in tapped.query_heads] == [0, 1, 2]


def test_no_heads_tap_nothing() -> None:
    assert tapped_layers((), 8, 4, 0) == ()


def test_only_heads_of_modulated_layers_are_accepted() -> None:
    plan = LayerPlan((layer(0, 48, "standard"), layer(1, None, "broad"), layer(2, None, "sharp")), PROFILE)
    check_heads([(1, 0), (2, 3)], plan, 4)
    for head in [(0, 0), (1, 4), (1, -1), (3, 0)]:
        with pytest.raises(UnsupportedModelError, match=f"layer {head[0]} head {head[1]}"):
            check_heads([head], plan, 4)


def test_heads_of_a_layer_that_norms_what_it_has_rotated_are_refused() -> None:
    """Attention reads other queries and keys than those that are tapped."""
    layers = layer(0, None, "broad"), replace(layer(1, None, "sharp"), bare=False)
    check_heads([(0, 1)], LayerPlan(layers, PROFILE), 4)
    with pytest.raises(UnsupportedModelError, match="layer 1 changes its queries or keys after"):
        check_heads([(0, 1), (1, 0)], LayerPlan(layers, PROFILE), 4)
