"""Which heads this rank taps, and where their keys and queries are found."""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

from cache.plan import LayerPlan
from cache.unsupported import UnsupportedModelError


@dataclass(frozen=True, slots=True)
class TappedLayer:
    """One layer's tapped heads on this rank, by local number; `columns` are their places in the head list."""

    layer: int
    query_heads: tuple[int, ...]
    kv_heads: tuple[int, ...]
    columns: tuple[int, ...]

    def kv_row(self, query_head: int, group: int) -> int:
        """Row in `kv_heads` of the key head that a query head reads (grouped-query attention)."""
        return self.kv_heads.index(query_head // group)


def tapped_layers(
    heads: Sequence[tuple[int, int]], num_heads: int, group: int, rank: int
) -> tuple[TappedLayer, ...]:
    """Split (layer, global head) pairs over tensor-parallel ranks.

    `num_heads` are the query heads of one rank, `group` the query heads that share a key head.
    """
    first = rank * num_heads
    by_layer: dict[int, list[tuple[int, int]]] = defaultdict(list)
    for column, (layer, head) in enumerate(heads):
        if first <= head < first + num_heads:
            by_layer[layer].append((head - first, column))
    return tuple(
        TappedLayer(
            layer,
            tuple(head for head, _ in local),
            tuple(sorted({head // group for head, _ in local})),
            tuple(column for _, column in local),
        )
        for layer, local in sorted(by_layer.items())
    )


def check_heads(heads: Sequence[tuple[int, int]], plan: LayerPlan, total_heads: int) -> None:
    """Refuse heads that the model does not have, or whose layer is not a modulated one, or changes them."""
    modulated = {layer.index: layer for layer in plan.modulated}
    for layer, head in heads:
        if layer not in modulated or not 0 <= head < total_heads:
            raise UnsupportedModelError(
                f"head profile: layer {layer} head {head} is not a head of a full-attention rotary layer"
            )
        if not modulated[layer].bare:
            raise UnsupportedModelError(
                f"head profile: layer {layer} changes its queries or keys after they are rotated"
            )
