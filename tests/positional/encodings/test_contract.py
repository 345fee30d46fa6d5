"""What follows from a contract."""

import dataclasses

import pytest

from positional.encodings.contract import CacheShape, Contract, EncodingError

PLAIN = Contract(
    acts="query_key",
    needs="its position",
    cached="the turned key",
    cache_rule="fixed",
    relative="exact",
    extra_dimensions=0,
    servable=True,
    why="a key is turned once",
)
HEADS = CacheShape(kv_heads=3, key_width=64, value_width=64, element_size=2)


def test_a_token_takes_the_key_and_the_value_of_every_head() -> None:
    assert PLAIN.bytes_per_token(HEADS) == 3 * (64 + 64) * 2


def test_every_head_pays_for_what_a_key_holds_beyond_its_content() -> None:
    lifted = dataclasses.replace(PLAIN, extra_dimensions=2)
    assert lifted.bytes_per_token(HEADS) - PLAIN.bytes_per_token(HEADS) == 3 * 2 * 2


def test_a_latent_cache_holds_the_latent_and_one_turned_key() -> None:
    # DeepSeek-V2: 512 and 64 numbers a token, whatever the number of heads.
    mla = dataclasses.replace(PLAIN, extra_dimensions=64)
    latent = CacheShape(kv_heads=1, key_width=512, value_width=0, element_size=2)
    assert mla.bytes_per_token(latent) == 576 * 2


def test_a_recurrent_state_keeps_nothing_of_a_single_token() -> None:
    assert dataclasses.replace(PLAIN, acts="state").bytes_per_token(HEADS) == 0


def test_what_hangs_on_the_reading_query_cannot_be_served_from_cached_keys() -> None:
    with pytest.raises(EncodingError, match="servable: cannot be where no cached key holds"):
        dataclasses.replace(PLAIN, cache_rule="end_point")


@pytest.mark.parametrize("field", ["kv_heads", "key_width", "element_size"])
def test_a_cache_of_nothing_is_refused_by_name(field: str) -> None:
    with pytest.raises(EncodingError, match=f"{field}: must be at least 1"):
        dataclasses.replace(HEADS, **{field: 0})


def test_a_key_cannot_have_less_than_its_content() -> None:
    with pytest.raises(EncodingError, match="extra_dimensions: must not be negative"):
        dataclasses.replace(PLAIN, extra_dimensions=-1)
