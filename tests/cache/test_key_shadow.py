import torch

from cache.key_shadow import KeyShadow


def shadow(slots: int = 8, kv_heads: int = 2, width: int = 3) -> KeyShadow:
    return KeyShadow(kv_heads, slots, width, torch.float32, torch.device("cpu"))


def keys(tokens: int, kv_heads: int = 2, width: int = 3) -> torch.Tensor:
    return torch.arange(1.0, kv_heads * tokens * width + 1).view(kv_heads, tokens, width)


def test_keys_are_read_by_slot_in_any_order() -> None:
    kept, written = shadow(), keys(3)
    kept.write(torch.tensor([5, 0, 7]), written)
    for head in range(2):
        assert torch.equal(kept.read(head, torch.tensor([7, 5, 0])), written[head][[2, 0, 1]])


def test_padding_touches_no_slot() -> None:
    kept = shadow()
    kept.write(torch.tensor([-1, 3, -1]), keys(3))
    everything = kept.read(0, torch.arange(8))
    assert torch.equal(everything[3], keys(3)[0, 1])
    assert everything[[0, 1, 2, 4, 5, 6, 7]].abs().sum() == 0


def test_the_step_buffer_may_be_longer_than_the_step() -> None:
    kept = shadow()
    kept.write(torch.tensor([1, 2]), keys(6))
    assert torch.equal(kept.read(1, torch.tensor([1, 2])), keys(6)[1, :2])
    assert kept.read(1, torch.tensor([3, 4])).abs().sum() == 0


def test_a_reused_slot_holds_its_last_key() -> None:
    kept = shadow()
    kept.write(torch.tensor([4]), keys(1))
    kept.write(torch.tensor([4]), -keys(1))
    assert torch.equal(kept.read(0, torch.tensor([4])), -keys(1)[0])


def test_its_bytes_count_the_spare_row() -> None:
    assert shadow(slots=8, kv_heads=2, width=3).nbytes == 2 * 9 * 3 * 4
