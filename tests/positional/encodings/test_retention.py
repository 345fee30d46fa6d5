"""Retention in its two forms."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from positional.encodings.contract import CacheShape, EncodingError
from positional.encodings.retention import Retention
from positional.encodings.stability import Stability, UnstableError
from positional.profile import Profile

WIDTH = 8
PROFILE = Profile.rope(10_000, WIDTH, "interleaved")


def tokens(seed: int, count: int) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    drawn = torch.randn(
        count, 2 * WIDTH + 3, dtype=torch.float64, generator=torch.Generator().manual_seed(seed)
    )
    query, key, value = drawn.split((WIDTH, WIDTH, 3), dim=-1)
    return query, key, value


@given(st.integers(0, 99), st.integers(1, 20), st.floats(0.1, 1))
def test_token_by_token_is_all_at_once(seed: int, count: int, gamma: float) -> None:
    retention, given_ = Retention(PROFILE, gamma), tokens(seed, count)
    outputs, _ = retention.recurrent(*given_)
    torch.testing.assert_close(outputs, retention.parallel(*given_), rtol=0, atol=1e-9)


@given(st.integers(0, 99), st.integers(2, 20), st.data())
def test_a_state_goes_on_where_it_was_left(seed: int, count: int, data: st.DataObject) -> None:
    retention, given_ = Retention.of_head(0, PROFILE), tokens(seed, count)
    cut = data.draw(st.integers(1, count - 1))
    whole, last = retention.recurrent(*given_)
    first, state = retention.recurrent(*(part[:cut] for part in given_))
    second, end = retention.recurrent(*(part[cut:] for part in given_), state)
    torch.testing.assert_close(torch.cat((first, second)), whole, rtol=0, atol=1e-12)
    torch.testing.assert_close(end, last, rtol=0, atol=1e-12)


@given(st.integers(0, 99), st.integers(0, 30), st.integers(0, 30), st.floats(0.1, 1))
def test_a_score_is_a_turned_product_that_decays_with_the_age(
    seed: int, i: int, j: int, gamma: float
) -> None:
    """By complex numbers, as the paper writes it: Re((q e^(iθn)) (k e^(iθm))*) γ^(n − m)."""
    (query,), (key,), _ = tokens(seed, 1)
    q, k = (torch.view_as_complex(vector.reshape(-1, 2)) for vector in (query, key))
    turns = torch.tensor(PROFILE.frequencies, dtype=torch.complex128)
    product = ((q * torch.exp(1j * turns * i)) * (k * torch.exp(1j * turns * j)).conj()).sum().real
    expected = float(product) * gamma ** (i - j) if i >= j else 0.0
    found = Retention(PROFILE, gamma).score(query, key, torch.tensor(i), torch.tensor(j))
    assert found.item() == pytest.approx(expected, abs=1e-9)


def test_heads_forget_ever_more_slowly() -> None:
    assert [Retention.of_head(head, PROFILE).gamma for head in range(3)] == [
        1 - 1 / 32,
        1 - 1 / 64,
        1 - 1 / 128,
    ]


def test_retention_is_refused_where_keys_lie_ahead() -> None:
    with pytest.raises(UnstableError, match="negative ages"):
        Stability.of(Retention.of_head(0, PROFILE).generator).require(bidirectional=True)


def test_a_token_adds_nothing_to_the_state() -> None:
    assert Retention.of_head(0, PROFILE).contract.bytes_per_token(CacheShape(2, WIDTH, WIDTH, 2)) == 0


def test_a_retention_that_cannot_be_is_refused_by_name() -> None:
    for gamma in (0.0, 1.5):
        with pytest.raises(EncodingError, match="gamma"):
            Retention(PROFILE, gamma)
    with pytest.raises(EncodingError, match="profile: must pair neighbours"):
        Retention(Profile.rope(10_000, WIDTH), 0.9)
