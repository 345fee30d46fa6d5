"""Positions added to embeddings: sinusoidal ones against three implementations of others, learned ones."""

import math
from typing import get_args

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from transformers.models.marian.modeling_marian import MarianSinusoidalPositionalEmbedding
from transformers.models.musicgen.modeling_musicgen import MusicgenSinusoidalPositionalEmbedding
from transformers.models.speecht5.modeling_speecht5 import SpeechT5ScaledPositionalEncoding

from positional.encodings.contract import EncodingError
from positional.encodings.learned import Learned
from positional.encodings.sinusoidal import First, Layout, Sinusoidal
from positional.profile import ProfileError

WIDTH = 16
PLACES = torch.arange(40)
LAYOUTS = pytest.mark.parametrize("layout", get_args(Layout))
FIRSTS = pytest.mark.parametrize("first", get_args(First))
POSITIONS = st.integers(-100_000, 100_000)


def test_sine_first_in_halves_is_marians() -> None:
    # Its table is computed in float64 and kept in float32.
    marian = MarianSinusoidalPositionalEmbedding(len(PLACES), WIDTH).create_weight()
    rows = Sinusoidal(WIDTH, layout="half").rows(PLACES)
    assert torch.equal(rows.float(), marian)


def test_sine_first_interleaved_is_speecht5s() -> None:
    rows = Sinusoidal(WIDTH).rows(PLACES)
    torch.testing.assert_close(
        rows.float(), SpeechT5ScaledPositionalEncoding(0.0, WIDTH, len(PLACES)).pe[0], rtol=0, atol=1e-5
    )


def test_cosine_first_in_halves_is_musicgens_whose_last_pair_is_at_the_base_itself() -> None:
    # It divides by pairs − 1, where the paper divides by pairs: another base.
    pairs = WIDTH // 2
    base = 10_000.0 ** (pairs / (pairs - 1))
    rows = Sinusoidal(WIDTH, base, layout="half", first="cosine").rows(PLACES)
    musicgen = MusicgenSinusoidalPositionalEmbedding.get_embedding(len(PLACES), WIDTH)
    torch.testing.assert_close(rows.float(), musicgen, rtol=0, atol=1e-5)


@FIRSTS
@LAYOUTS
def test_a_row_is_a_sine_and_a_cosine_of_every_pair(layout: Layout, first: First) -> None:
    row = Sinusoidal(8, layout=layout, first=first).rows(torch.tensor(30)).tolist()
    angles = [30 * rate for rate in (1, 0.1, 0.01, 0.001)]
    parts = [math.sin, math.cos] if first == "sine" else [math.cos, math.sin]
    if layout == "half":
        expected = [part(angle) for part in parts for angle in angles]
    else:
        expected = [part(angle) for angle in angles for part in parts]
    assert row == pytest.approx(expected, abs=1e-12)


@FIRSTS
@LAYOUTS
@given(i=POSITIONS, j=POSITIONS, shift=POSITIONS)
def test_two_rows_meet_by_their_displacement_alone(
    layout: Layout, first: First, i: int, j: int, shift: int
) -> None:
    encoding = Sinusoidal(WIDTH, layout=layout, first=first)
    places = torch.tensor([i, j, i + shift, j + shift])
    a, b, moved_a, moved_b = encoding.rows(places)
    assert a @ b == pytest.approx(float(moved_a @ moved_b), abs=1e-9)


def test_but_content_meets_the_positions_themselves() -> None:
    encoding, content = Sinusoidal(WIDTH), torch.ones(WIDTH, dtype=torch.float64)
    near, far = encoding.score(content, content, torch.tensor([5, 25]), torch.tensor([3, 23]))
    assert abs(near - far) > 0.1
    assert encoding.contract.relative == "no"


@pytest.mark.parametrize("field", ["layout", "first"])
def test_an_unknown_convention_is_refused_by_name(field: str) -> None:
    with pytest.raises(EncodingError, match=f"{field}: must be one of"):
        Sinusoidal(WIDTH, **{field: "other"})  # type: ignore[arg-type]


def test_an_odd_width_has_no_pairs() -> None:
    with pytest.raises(ProfileError, match="rotary_dim"):
        Sinusoidal(7)


def test_rows_are_added_in_the_embeddings_own_precision() -> None:
    embeddings = torch.zeros(len(PLACES), WIDTH, dtype=torch.bfloat16)
    encoding = Sinusoidal(WIDTH)
    assert torch.equal(encoding.embed(embeddings, PLACES), encoding.rows(PLACES).bfloat16())


def test_a_learned_position_is_its_row() -> None:
    table = torch.randn(10, 4, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    embeddings = torch.ones(2, 4, dtype=torch.float64)
    assert torch.equal(Learned(table).embed(embeddings, torch.tensor([7, 2])), 1 + table[[7, 2]])


@given(st.integers(-5, 15))
def test_no_position_beyond_the_table_is_made_up(position: int) -> None:
    learned = Learned(torch.zeros(10, 4))
    if 0 <= position < 10:
        assert learned.embed(torch.ones(4), torch.tensor(position)).tolist() == [1.0] * 4
    else:
        with pytest.raises(EncodingError, match="positions: must be from 0 to 9"):
            learned.embed(torch.ones(4), torch.tensor(position))


def test_a_learned_table_says_where_sequences_end() -> None:
    assert "after 10 tokens" in Learned(torch.zeros(10, 4)).contract.why


def test_a_table_without_rows_of_numbers_is_refused() -> None:
    with pytest.raises(EncodingError, match="table: must be floating point"):
        Learned(torch.zeros(4))
