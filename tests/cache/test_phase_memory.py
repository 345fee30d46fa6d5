"""Sums over tokens that go on where the cache does: in chunks, from hit blocks, many requests at once."""

from types import SimpleNamespace
from typing import Any

import torch

from cache.phase_memory import PhaseMemory

BLOCK, BLOCKS, HEADS = 4, 12, 2


class Sequence:
    """A request: what its tokens add, and the blocks that it was given."""

    def __init__(self, seed: int, tokens: int, blocks: list[int]) -> None:
        generator = torch.Generator().manual_seed(seed)
        self.steps = -torch.rand(tokens, HEADS, dtype=torch.float64, generator=generator)
        self.blocks = blocks
        self.done = 0

    @property
    def expected(self) -> torch.Tensor:
        return self.steps.cumsum(0)

    def slots(self, tokens: range) -> list[int]:
        return [self.blocks[token // BLOCK] * BLOCK + token % BLOCK for token in tokens]


def step(memory: PhaseMemory, *parts: tuple[Sequence, int], padding: int = 0) -> list[torch.Tensor]:
    """Let each sequence go on by some tokens; the phases that come out, by sequence."""
    ranges = [range(sequence.done, sequence.done + count) for sequence, count in parts]
    steps = torch.cat(
        [
            sequence.steps[tokens.start : tokens.stop]
            for (sequence, _), tokens in zip(parts, ranges, strict=True)
        ]
    )
    starts = torch.tensor([0, *(count for _, count in parts)]).cumsum(0).to(torch.int32)
    slots = [
        slot for (sequence, _), tokens in zip(parts, ranges, strict=True) for slot in sequence.slots(tokens)
    ]
    longest = max(len(sequence.blocks) for sequence, _ in parts)
    table = [sequence.blocks + [0] * (longest - len(sequence.blocks)) for sequence, _ in parts]
    metadata: Any = SimpleNamespace(
        query_start_loc=starts,
        seq_lens=torch.tensor([tokens.stop for tokens in ranges], dtype=torch.int32),
        block_table=torch.tensor(table, dtype=torch.int32),
        slot_mapping=torch.tensor([*slots, *[-1] * padding]),
    )
    found = memory.advance(torch.cat((steps, steps.new_zeros(padding, HEADS))), metadata)
    for sequence, count in parts:
        sequence.done += count
    return list(found[: int(starts[-1])].split([count for _, count in parts]))


def memory() -> PhaseMemory:
    return PhaseMemory(BLOCKS * BLOCK, BLOCK, HEADS, torch.device("cpu"))


def test_chunks_of_any_length_come_to_the_sum_of_all() -> None:
    kept, sequence = memory(), Sequence(0, 23, [5, 1, 9, 3, 2, 7])
    found = [step(kept, (sequence, count))[0] for count in (1, 3, 4, 7, 1, 1, 6)]
    torch.testing.assert_close(torch.cat(found), sequence.expected, rtol=0, atol=1e-12)


def test_requests_of_one_batch_do_not_meet() -> None:
    kept = memory()
    first, second = Sequence(1, 10, [4, 2, 8]), Sequence(2, 9, [1, 3, 5])
    one = step(kept, (first, 6), (second, 1), padding=3)
    two = step(kept, (second, 8), (first, 4), padding=1)
    torch.testing.assert_close(torch.cat((one[0], two[1])), first.expected, rtol=0, atol=1e-12)
    torch.testing.assert_close(torch.cat((one[1], two[0])), second.expected, rtol=0, atol=1e-12)


def test_a_hit_prefix_is_gone_on_from() -> None:
    """Whoever computed its blocks: they hold the same tokens."""
    kept, first = memory(), Sequence(3, 12, [6, 2, 4])
    step(kept, (first, 12))
    second = Sequence(3, 12, [6, 2, 9])
    second.done = 8
    torch.testing.assert_close(step(kept, (second, 4))[0], second.expected[8:], rtol=0, atol=1e-12)


def test_a_first_token_starts_from_zero_in_a_slot_that_others_used() -> None:
    kept = memory()
    step(kept, (Sequence(4, 8, [1, 2]), 8))
    again = Sequence(5, 8, [1, 2])
    torch.testing.assert_close(step(kept, (again, 8))[0], again.expected, rtol=0, atol=1e-12)


def test_it_tells_what_a_slot_takes() -> None:
    kept = memory()
    assert kept.row_bytes == 8 * HEADS
    assert kept.nbytes == (BLOCKS * BLOCK + 2) * kept.row_bytes
