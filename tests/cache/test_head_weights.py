"""Which heads' weights a rank loads."""

import pytest
import torch

from cache import head_weights as module
from cache.head_weights import head_weights


def loaded(monkeypatch: pytest.MonkeyPatch, heads: int, rank: int, ranks: int) -> list[float]:
    """By head of this rank, the number of the checkpoint's head."""
    monkeypatch.setattr(module, "get_tensor_model_parallel_rank", lambda: rank)
    monkeypatch.setattr(module, "get_tensor_model_parallel_world_size", lambda: ranks)
    parameter = head_weights(heads, 3)
    parameter.weight_loader(parameter, torch.arange(heads)[:, None].expand(-1, 3).double())  # type: ignore[attr-defined]
    assert parameter.dtype == torch.float32
    return [float(head[0]) for head in parameter]


@pytest.mark.parametrize(
    ("heads", "rank", "ranks", "own"),
    [(4, 0, 1, [0, 1, 2, 3]), (4, 1, 2, [2, 3]), (2, 2, 4, [1]), (2, 1, 4, [0]), (1, 3, 4, [0])],
)
def test_a_rank_has_its_own_heads_or_a_copy(
    heads: int, rank: int, ranks: int, own: list[float], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert loaded(monkeypatch, heads, rank, ranks) == own


def test_weights_of_another_shape_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    loaded(monkeypatch, 2, 0, 1)
    parameter = head_weights(2, 3)
    with pytest.raises(ValueError, match=r"weights of 2 heads are of \[3\] each, not \[2, 4\]"):
        parameter.weight_loader(parameter, torch.zeros(2, 4))  # type: ignore[attr-defined]
