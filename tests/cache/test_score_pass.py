import math

import pytest
import torch

from cache.extra_args import ScoreTask
from cache.score_pass import ScorePass

ROWS = (12, 13, 40, 41)


def score_pass(silent: tuple[int, ...] = ()) -> ScorePass:
    return ScorePass(ScoreTask.of(ROWS, [(2, 4), (4, 7), (8, 10)], silent))


def signals_on_paper(queries: torch.Tensor, keys: torch.Tensor, tokens: list[list[int]]) -> list[float]:
    """`keys` start at token 2."""
    logits = queries @ keys.T / math.sqrt(queries.shape[1])
    return [max(float(logits[:, token - 2].max()) for token in sentence) for sentence in tokens]


@pytest.mark.parametrize(
    ("first", "last", "expected"),
    [
        (0, 12, []),
        (0, 13, [0]),
        (12, 41, [0, 1, 2]),
        (13, 14, [1]),
        (14, 40, []),
        (32, 64, [2, 3]),
        (42, 99, []),
    ],
)
def test_a_chunk_holds_the_query_rows_between_its_ends(first: int, last: int, expected: list[int]) -> None:
    assert list(range(4))[score_pass().rows_between(first, last)] == expected


def test_queries_of_several_chunks_give_one_signal() -> None:
    queries, keys = torch.randn(4, 8), torch.randn(8, 8)
    running = score_pass()
    assert running.tokens == range(2, 10)
    for first, last in ((0, 13), (13, 32), (32, 64)):
        rows = running.rows_between(first, last)
        running.keep(3, rows, queries[rows])
    expected = signals_on_paper(queries, keys, [[2, 3], [4, 5, 6], [8, 9]])
    assert running.signal(3, keys).tolist() == pytest.approx(expected, abs=1e-5)


def test_silent_tokens_are_not_heard() -> None:
    queries, keys = torch.randn(4, 8), torch.randn(8, 8)
    running = score_pass(silent=(5, 8, 9))
    running.keep(0, slice(0, 4), queries)
    signal = running.signal(0, keys).tolist()
    assert signal[:2] == pytest.approx(signals_on_paper(queries, keys, [[2, 3], [4, 6]]), abs=1e-5)
    assert signal[2] == -math.inf


def test_columns_do_not_share_queries() -> None:
    queries, keys = torch.randn(4, 8), torch.randn(8, 8)
    running = score_pass()
    running.keep(0, slice(0, 4), queries)
    running.keep(1, slice(0, 4), -queries)
    assert running.signal(0, keys).tolist() == pytest.approx(
        signals_on_paper(queries, keys, [[2, 3], [4, 5, 6], [8, 9]]), abs=1e-5
    )


def test_a_read_in_low_precision_is_summed_in_float32() -> None:
    queries = torch.full((4, 256), 0.0625, dtype=torch.bfloat16)
    keys = torch.full((8, 256), 1.0078125, dtype=torch.bfloat16)
    running = score_pass()
    running.keep(0, slice(0, 4), queries)
    assert running.signal(0, keys).tolist() == [256 * 0.0625 * 1.0078125 / 16] * 3
