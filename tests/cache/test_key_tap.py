import torch

from cache.key_tap import KeyTap


def test_a_tap_copies_its_heads_of_the_step() -> None:
    tap = KeyTap((3, 0), (1,), 4, 6, torch.float32, torch.device("cpu"))
    query, key = torch.randn(2, 4 * 4), torch.randn(2, 2 * 4)
    tap(query, key)
    assert torch.equal(tap.queries[0, :2], query.view(2, 4, 4)[:, 3])
    assert torch.equal(tap.queries[1, :2], query.view(2, 4, 4)[:, 0])
    assert torch.equal(tap.keys[0, :2], key.view(2, 2, 4)[:, 1])
    assert tap.queries[:, 2:].abs().sum() + tap.keys[:, 2:].abs().sum() == 0


def test_a_tap_writes_where_it_wrote_before_and_changes_nothing_it_reads() -> None:
    tap = KeyTap((0,), (0,), 4, 6, torch.float32, torch.device("cpu"))
    place = tap.queries.data_ptr(), tap.keys.data_ptr()
    for tokens in (6, 1, 3):
        query, key = torch.randn(tokens, 8), torch.randn(tokens, 4)
        before = query.clone(), key.clone()
        tap(query, key)
        assert torch.equal(query, before[0])
        assert torch.equal(key, before[1])
        assert torch.equal(tap.keys[0, :tokens], key)
    assert (tap.queries.data_ptr(), tap.keys.data_ptr()) == place


def test_a_tap_adds_nothing_to_the_models_weights() -> None:
    tap = KeyTap((0,), (0,), 4, 6, torch.bfloat16, torch.device("cpu"))
    assert tap.state_dict() == {}
    assert tap.queries.dtype == tap.keys.dtype == torch.bfloat16
